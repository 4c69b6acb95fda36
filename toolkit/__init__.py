"""Token confidence: how sure was a language model of each piece of the text it wrote?"""
