-- SPDX-License-Identifier: MIT
--- ONNX's losses.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'

local M = {}

-- Minus the number that a target chooses among those of axis 2, times its weight.
local function chosen(n, x, target, weight)
  local shape, channels = x.shape, x.shape[2]
  local order = { 1 }
  for axis = 3, x.ndim do order[#order + 1] = axis end
  order[#order + 1] = 2
  local rows = x:permute(order):reshape(-1)
  local at = target:to 'i64':reshape(-1)
  local ignore = n:has 'ignore_index' and n:int 'ignore_index'
  local kept
  if ignore then
    kept = at:ne(ignore):to 'i64'
    at = at * kept
  end
  at = kit.positions(at, channels)
  local loss = rows:take(at + kit.counting(at.count, 0, channels)):neg()
  local share = weight and weight:take(at)
  if kept then
    share = share and share * kept:to(x.dtype) or kept:to(x.dtype)
    -- what is left out may be infinite
    loss = ridge.where(kept:ne(0), loss, kit.full(0, {}, loss))
  end
  if share then loss = loss * share end
  local out = { shape[1] }
  for axis = 3, x.ndim do out[#out + 1] = shape[axis] end
  local reduction = n:string('reduction', 'mean')
  if reduction == 'none' then return loss:reshape(out) end
  if reduction == 'sum' then return loss:sum() end
  return share and loss:sum() / share:sum() or loss:mean()
end

function M.NegativeLogLikelihoodLoss(n, x, target, weight)
  return chosen(n, x, target, weight)
end

function M.SoftmaxCrossEntropyLoss(n, x, target, weight)
  local away = x - x:max(2, true)
  local logs = away - away:exp():sum(2, true):log()
  return chosen(n, logs, target, weight), logs
end

return M
