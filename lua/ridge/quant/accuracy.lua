-- SPDX-License-Identifier: MIT
--- What two nets answer on the same rows: how many are right, which answers changed, and how far
--- the second's probabilities are from the first's.

local blame = require 'ridge.blame'
local batches = require 'ridge.quant.batches'
local inference = require('ridge.tensor.mode').inference
local mcnemar = require 'ridge.measure.mcnemar'
local where = require('ridge.tensor.choose').where
local proportion = require 'ridge.measure.proportion'

local M = {}

-- Logits [n x classes] and labels [n] of a batch, or an error that says what came.
local function check(y, labels, what)
  if y.ndim ~= 2 then
    blame.raise(('%s: accuracy is of outputs [rows x classes], and the net gives %s'):format(what,
      y:describe()), 'ESHAPE')
  end
  if not labels or labels.ndim ~= 1 or labels:size(1) ~= y:size(1) then
    blame.raise(('%s: a loader of (x, labels) is expected, with a label for each of %d rows; got '
      .. '%s'):format(what, y:size(1), blame.show(labels)), 'ESHAPE')
  end
  if labels.count == 0 then return end
  local lo, hi = labels:min():item(), labels:max():item()
  if not (lo >= 0 and hi < y:size(2)) or labels:ne(labels:to 'i64'):any():item() == 1 then
    blame.raise(('%s: labels are whole numbers from 0 to %d, one of the classes that the net tells '
      .. 'apart; got %s'):format(what, y:size(2) - 1, lo >= 0 and hi < y:size(2)
      and 'parts of one' or ('%g .. %g'):format(lo, hi)), 'EARG')
  end
end

-- The class that each row answers; a row with nan in it answers none.
local function classes(y)
  return where(y:eq(y):all(2), y:argmax(2):to 'i64', -1)
end

local function log_softmax(x) return x - x:logsumexp(2):reshape(-1, 1) end

-- Counts over one batch.
local function add(sums, a, b, labels)
  local class_a, class_b = classes(a), classes(b)
  labels = labels:to 'i64'
  local right_a, right_b = class_a:eq(labels), class_b:eq(labels)
  local function count(flag) return flag:to('i64'):sum():item() end
  local both = count(right_a:logical_and(right_b))
  sums.n = sums.n + labels:size(1)
  sums.answered = sums.answered + count(class_a:ge(0))
  sums.both = sums.both + both
  sums.only_a = sums.only_a + count(right_a) - both
  sums.only_b = sums.only_b + count(right_b) - both
  sums.changed = sums.changed + count(class_a:eq(class_b):logical_not())
  local log_a, log_b = log_softmax(a:to 'f64'), log_softmax(b:to 'f64')
  local p = log_a:exp() -- what never comes adds nothing, though its logarithm is no number
  sums.kl = sums.kl + where(p:eq(0), p, (log_a - log_b) * p):sum():item()
end

--- Two nets on the rows of a loader.
---@param a table net
---@param b table net
---@param loader table of batches x, labels
---@param what string the function's name, for errors
---@param name string|nil the option that the loader is of, for errors: 'test' when left out
---@return table found n, original and quantized (share right, with lo, hi), difference (lo, hi),
---  only_original, only_quantized, p (exact McNemar), changed, kl (nats a row)
function M.pair(a, b, loader, what, name)
  local s = { n = 0, answered = 0, both = 0, only_a = 0, only_b = 0, changed = 0, kl = 0 }
  for x, labels in batches.each(loader, nil, what, name or 'test') do
    local y = inference(a, x)
    check(y, labels, what)
    add(s, y, inference(b, x), labels)
  end
  if s.n > 0 and s.answered == 0 then -- nothing changes such an answer for the worse
    blame.raise(('%s: the net itself gives nan for each of %d rows'):format(what, s.n))
  end
  local function share(hits)
    local lo, hi = proportion.interval(hits, s.n)
    return { share = hits / s.n, lo = lo, hi = hi }
  end
  local lo, hi = mcnemar.difference(s.both, s.only_a, s.only_b,
    s.n - s.both - s.only_a - s.only_b)
  return { n = s.n, original = share(s.both + s.only_a), quantized = share(s.both + s.only_b),
    difference = { share = (s.only_b - s.only_a) / s.n, lo = lo, hi = hi },
    only_original = s.only_a, only_quantized = s.only_b, p = mcnemar.exact(s.only_a, s.only_b),
    changed = s.changed, kl = s.kl / s.n }
end

return M
