"""Statistics, filters and draws of one row by plain loops over Python floats, as an oracle."""

import math

EDGE = 1e-6  # a mass this near to a threshold has reached it


def describe(logits, token):
    """Every scalar of TokenStatistics but the constrained and the sampling log-probability."""
    z = [float(x) for x in logits]
    finite = [x for x in z if x > -math.inf]
    lse = logsumexp(finite)
    p = [math.exp(x - lse) for x in z]
    log_p = [x - lse for x in finite]
    entropy = -math.fsum(math.exp(x) * x for x in log_p)
    falling = sorted(log_p, reverse=True)
    return {
        "logprob": z[token] - lse,
        "rank": 1 + sum(x > z[token] for x in z),
        "entropy": entropy,
        "varentropy": math.fsum(math.exp(x) * (x + entropy) ** 2 for x in log_p),
        "logsumexp": lse,
        "mean_logit": math.fsum(finite) / len(finite),
        "n_finite": len(finite),
        "lse_half": logsumexp([x / 2 for x in finite]),
        "lse_quarter": logsumexp([x / 4 for x in finite]),
        "top1_logprob": falling[0],
        "top2_logprob": falling[1] if len(falling) > 1 else -math.inf,
        "top15_entropy": renormalised_entropy(falling[:15]),
        "top20_mean_logprob": math.fsum(falling[:20]) / len(falling[:20]),
        "boosted_prob": boosted(p, math.exp(z[token] - lse)),
    }


def alternatives(logits, k):
    """The k likeliest ids and their log-probabilities."""
    z = [float(x) for x in logits]
    lse = logsumexp([x for x in z if x > -math.inf])
    ids = sorted(range(len(z)), key=lambda i: (-z[i], i))[:k]
    return ids, [z[i] - lse for i in ids]


def logsumexp(values):
    top = max(values)
    return top + math.log(math.fsum(math.exp(x - top) for x in values))


def renormalised_entropy(log_p):
    lse = logsumexp(log_p)
    return -math.fsum(math.exp(x - lse) * (x - lse) for x in log_p)


def boosted(p, of_token):
    falling = sorted(p, reverse=True)
    ends = [
        i
        for i in range(len(falling) - 1)
        if falling[i] - falling[i + 1] > 0.3 * falling[i] and falling[i] - falling[i + 1] > 0.005
    ]
    if ends and of_token >= falling[ends[-1]] * (1 - 1e-12):
        return math.fsum(falling[: ends[-1] + 1])
    return of_token


def kept(logits, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, order="temperature_first"):
    """The ids that the filters leave, by falling logit."""
    z = [float(x) for x in logits]
    left = sorted((i for i in range(len(z)) if z[i] > -math.inf), key=lambda i: (-z[i], i))
    if order == "temperature_first":
        z = [x / temperature for x in z]
        left = filter_top_k(z, left, top_k, ties=True)
        left = filter_top_p(z, left, top_p, ties=False)
        return filter_min_p(z, left, min_p)
    left = filter_top_p(z, left, top_p, ties=True)
    left = filter_min_p(z, left, min_p)
    return filter_top_k(z, left, top_k, ties=False)


def filter_top_k(z, left, k, ties):
    if k == 0 or k >= len(left):
        return left
    return [i for i in left if z[i] >= z[left[k - 1]]] if ties else left[:k]


def filter_top_p(z, left, p, ties):
    if p == 1:
        return left
    lse = logsumexp([z[i] for i in left])
    mass, chosen = 0.0, []
    for i in left:
        if mass >= p * (1 - EDGE) and not (ties and z[i] == z[chosen[-1]]):
            break
        chosen.append(i)
        mass += math.exp(z[i] - lse)
    return chosen


def filter_min_p(z, left, min_p):
    return [i for i in left if math.exp(z[i] - z[left[0]]) >= min_p * (1 - EDGE)]


def probabilities(logits, temperature=1.0, **filters):
    """The probability of each token under the sampler, in order of ids."""
    chosen = kept(logits, temperature, **filters)
    lse = logsumexp([float(logits[i]) / temperature for i in chosen])
    p = [0.0] * len(logits)
    for i in chosen:
        p[i] = math.exp(float(logits[i]) / temperature - lse)
    return p
