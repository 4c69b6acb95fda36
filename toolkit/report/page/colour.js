/* Confidence as colour: the palette of the island in light, and the same hues on dark paper. */

const STEPS_OF_LEGEND = 9;

function parseHex(hex) {
  return [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
}

function toHex(rgb) {
  return `#${rgb.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

function toLinear(part) {
  const share = part / 255;
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
}

function fromLinear(share) {
  const part = share <= 0.0031308 ? 12.92 * share : 1.055 * share ** (1 / 2.4) - 0.055;
  return Math.round(255 * part);
}

/** Lightness, and two axes of colour, in Ottosson's OKLab. */
function toLab(rgb) {
  const [r, g, b] = rgb.map(toLinear);
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function fromLab([light, a, b]) {
  const l = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (light - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
}

/** The colour in sRGB, its chroma lowered as far as the gamut needs. */
function inGamut([light, a, b]) {
  for (let share = 1; share > 0; share -= 0.05) {
    const linear = fromLab([light, a * share, b * share]);
    if (linear.every((part) => part >= -0.001 && part <= 1.001)) {
      return linear.map((part) => fromLinear(Math.min(Math.max(part, 0), 1)));
    }
  }
  return [0, 0, 0].fill(fromLinear(light ** 3));
}

/**
 * The palette for dark paper. Hue and order stay, lightness is mirrored: what is sure lies near the paper in
 * both themes, and what is unsure stands out from it.
 */
function darkPalette(palette) {
  const labs = palette.map((hex) => toLab(parseHex(hex)));
  const [first, last] = [labs[0][0], labs[labs.length - 1][0]];
  const [bright, dim] = [0.82, 0.27];
  return labs.map(([light, a, b]) => {
    const share = (light - first) / (last - first);
    return toHex(inGamut([bright + share * (dim - bright), a, b]));
  });
}

function between(palette, confidence) {
  const place = confidence * (palette.length - 1);
  const lower = Math.min(Math.floor(place), palette.length - 2);
  const [a, b] = [parseHex(palette[lower]), parseHex(palette[lower + 1])];
  return a.map((part, i) => Math.round(part + (place - lower) * (b[i] - part)));
}

/** Black or white, whichever stands out more: at least 4.5 on any background. */
function inkOn(rgb) {
  const [r, g, b] = rgb.map(toLinear);
  const luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) ? "#000000" : "#ffffff";
}

/** A function that colours an element by a confidence; null, not computed, is drawn as no colour is. */
function makePainter(palette) {
  const dark = darkPalette(palette);
  return (element, confidence) => {
    if (confidence === null) {
      element.classList.add("unknown");
      return;
    }
    const [day, night] = [between(palette, confidence), between(dark, confidence)];
    element.style.setProperty("background-color", `light-dark(${toHex(day)}, ${toHex(night)})`);
    element.style.setProperty("color", `light-dark(${inkOn(day)}, ${inkOn(night)})`);
    element.classList.toggle("unsure", confidence < UNSURE);
  };
}
