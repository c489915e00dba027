-- SPDX-License-Identifier: MIT
-- What words.lua refuses: a Lua pattern of a phrase in lower case, and what to say instead.
--
-- `unless`: a pattern; the phrase is meant otherwise where that follows it.

return {
  -- calls and layers
  { "the door", "dispatcher" },
  { "one door", "dispatcher" },
  { "in the room", "layer, folder; scratch, workspace", unless = " of " },
  { "rooms? below", "layer" },
  -- products
  { "ways? out", "epilogue" },
  { "turned", "transposed, rotated", unless = "[it ]* o[nf]" },
  { "made ready", "prepared" },
  { "making ready", "preparing" },
  { "as %a+ lies?", "in place, as stored, in its own layout" },
  { "li[ea]s? side by side", "contiguous, adjacent" },
  -- memory and caches
  { "first%-level cache", "L1" },
  { "first cache", "L1" },
  { "second%-level cache", "L2" },
  { "second cache", "L2" },
  { "near cache", "L1" },
  { "lets? go of", "release" },
  { "letting go of", "release" },
  -- gradients
  { "ways? back", "backward pass" },
  { "stop by stop", "step by step" },
  { "what arriv%a+", "incoming gradient" },
  { "arrives? at", "incoming gradient" },
  { "ha[sv]e? arrived", "accumulated gradient, incoming gradient" },
  { "wants? a gradient", "requires a gradient" },
  { "wants? no gradient", "requires no gradient" },
  { "lower types?", "lower-precision type" },
  -- elementwise functions, reductions, gathering
  { "functions? of one element", "unary elementwise function" },
  { "functions? of two elements", "binary elementwise function" },
  { "functions? of elements", "elementwise function" },
  { "is taken off", "subtract" },
  { "running sums?", "cumulative sum" },
  { "by their numbers?", "gather, scatter; by index" },
  { "joining of tensors", "concatenation" },
  { "joining tensors", "concatenation" },
  -- devices
  { "makers?", "vendor" },
  { "tak%a+ note", "capture" },
  { "be noted", "capture" },
  { "steps are noted", "capture" },
  { "comes? behind", "is ordered after, waits for" },
  { "marks? in %a+ streams?", "event" },
  { "marks? in a stream", "event" },
  { "complain%a*", "report an error", unless = "%?" },
  { "profiler that looks on", "attached profiler" },
  { "left behind", "abandoned" },
  -- words
  { "nobody tells", "not reported, unknown" },
  { "not tell", "not report" },
  { "and its kind", "and the like" },
}
