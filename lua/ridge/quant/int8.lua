-- SPDX-License-Identifier: MIT
--- Numbers as whole numbers of 8 bits and what they stand for.
---
--- Weights are symmetric and keep out of -128, so that the negative of each is one as well; ties go
--- to the even one; 0 is exact, so that padding is.

local blame = require 'ridge.blame'
local in_no_grad = require('ridge.tensor.grad').no_grad

local M = {}

local MOST = 127
local TINY = 2 ^ -126 -- a row of zeros has a scale, too

--- Are all elements finite?
---@param x Tensor
---@return boolean
function M.is_finite(x)
  return x.count == 0 or x:detach():to('f32'):isfinite():to('u8'):min():item() == 1
end

--- A weight as i8 with a scale for each row of its first axis, or one for all.
---@param weight Tensor [n_out x ...] float
---@param per string 'channel' or 'tensor'
---@param name string the layer, for errors
---@param least Tensor|nil f32, as scale: no scale is smaller
---@return Tensor bytes i8, as the weight
---@return Tensor scale f32 [n_out], or [1]
function M.of_weight(weight, per, name, least)
  return in_no_grad(function()
    if not M.is_finite(weight) then
      blame.raise(('%s: its weight has nan or inf in it, which no range holds'):format(name),
        'EARG')
    end
    local w = weight:detach():to 'f32'
    local rows = w:reshape(w:size(1), -1)
    local most = per == 'tensor' and rows:abs():max():reshape(1) or rows:abs():max(2)
    local scale = (most / MOST):maximum(TINY)
    if least then scale = scale:maximum(least) end
    local q = (rows / (per == 'tensor' and scale or scale:reshape(-1, 1))):round()
      :maximum(-MOST):minimum(MOST):to 'i8'
    return q:reshape(w:size()), scale
  end)
end

--- Rows as i8 with a scale for each, from the largest of each: what is in a row is as near as 8
--- bits come. A row with nan or inf in it has a scale that is none, and gives nan.
---@param x Tensor [... x n] f32
---@return Tensor bytes i8
---@return Tensor scale f32 [... x 1]
function M.of_rows(x)
  local scale = (x:abs():max(-1, true) / MOST):maximum(TINY)
  return (x / scale):round():to 'i8', scale
end

return M
