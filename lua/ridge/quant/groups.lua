-- SPDX-License-Identifier: MIT
--- Weights as codes of a few bits, in groups of neighbours that share a scale in f16, and a minimum
--- where one is asked for.
---
--- Without a minimum a code stands for (code - 2^(bits - 1)) scale, and the scale has the sign that
--- lets the outermost weight of the group be the lowest code exactly: all codes are used. 8 bits
--- keep out of -128 instead. Codes are taken with the scale as f16 has it, not before.

local in_no_grad = require('ridge.tensor.grad').no_grad
local concat = require('ridge.tensor.ops').concat
local where = require('ridge.tensor.choose').where

local M = {}

M.BITS = { 2, 3, 4, 6, 8 }
M.GROUPS = { 32, 64, 128 }

local NOTHING = 2 ^ -10 -- of the largest weight: what a group may have and be lost

local MSE_STEPS = 40 -- ranges that are tried, from a third of all on

--- The largest number that f16 has: a scale above it is none.
M.MOST_SCALE = 65504

local function single(x) return x:to 'f16':to 'f32' end

-- Of scales and minima the codes, and what they stand for.
local function coded(w, scale, min, bits)
  local inverse = where(scale:eq(0), scale, 1 / scale)
  local low, high, zero = 0, 2 ^ bits - 1, 2 ^ (bits - 1)
  local code
  if min then
    code = ((w - min) * inverse):round()
  else
    code = (w * inverse):round() + zero
    if bits == 8 then low = 1 end
  end
  code = code:maximum(low):minimum(high)
  local back = min and code * scale + min or (code - zero) * scale
  return code, back
end

-- Scale and minimum of a part of each group's range.
local function scales_of(w, bits, with_min, part)
  local high, low = w:max(-1, true), w:min(-1, true)
  if with_min then
    local min = single(low * part)
    return single((high * part - min) / (2 ^ bits - 1)), min
  end
  if bits == 8 then return single(high:maximum(low:neg()) * (part / 127)) end
  local outermost = where(high:gt(low:neg()), high, low)
  return single(outermost * (-part / 2 ^ (bits - 1)))
end

-- Of all parts of its range the one with the least squared error, for each group.
local function best_scales(w, bits, with_min)
  local scale, min = scales_of(w, bits, with_min, 1)
  local function loss(s, m) return (select(2, coded(w, s, m, bits)) - w):square():sum(-1, true) end
  local least = loss(scale, min)
  for i = 1, MSE_STEPS do
    local s, m = scales_of(w, bits, with_min, 1 - 2 / 3 * i / MSE_STEPS)
    local value = loss(s, m)
    local better = value:lt(least)
    scale, least = where(better, s, scale), where(better, value, least)
    if m then min = where(better, m, min) end
  end
  return scale, min
end

--- Round a matrix.
---@param weight Tensor [n_out x n_in] float, n_in in whole groups
---@param opts table bits, group, minimum (boolean), search (by the least squared error)
---@return table found code (f32 [n_out x n_in], whole numbers from 0), scale (f16 [n_out x n_in /
---  group]), min (the same, or nil), value (f32: what the codes stand for)
function M.round(weight, opts)
  return in_no_grad(function()
    local n_out, n_in = weight:size(1), weight:size(2)
    local w = weight:detach():to('f32'):reshape(n_out, n_in / opts.group, opts.group)
    local find = opts.search and best_scales or scales_of
    local scale, min = find(w, opts.bits, opts.minimum, 1)
    local code, value = coded(w, scale, min, opts.bits)
    local function shaped(x) return x:reshape(n_out, n_in / opts.group):to 'f16' end
    return { code = code:reshape(n_out, n_in), value = value:reshape(n_out, n_in),
      scale = shaped(scale), min = min and shaped(min) }
  end)
end

--- Scale and minimum for columns that are one group, [n_out x 1] each.
---@param w Tensor f32 [n_out x group]
---@param opts table bits, minimum, search
---@return Tensor scale
---@return Tensor|nil min
function M.scales(w, opts)
  return (opts.search and best_scales or scales_of)(w, opts.bits, opts.minimum, 1)
end

M.coded = coded

--- Why a matrix has no scales in f16, or nil: it may have none at all, or they may be too large, or
--- round to 0 with a minimum that does so too, and then nothing is left of a group that is not
--- nothing beside the others.
---@param weight Tensor [n_out x n_in] float, in whole groups
---@param found table what it was rounded to: scale, min
---@param opts table bits, group, minimum
---@return string|nil
function M.why_not(weight, found, opts)
  return in_no_grad(function()
    local scale, min = found.scale:to 'f32', found.min and found.min:to 'f32'
    if scale:isfinite():all():item() == 0 or min and min:isfinite():all():item() == 0 then
      if weight:detach():isfinite():all():item() == 0 then
        return 'its weight has nan or inf in it, which no range holds'
      end
      return ('a scale of its weights is above %d, the largest number of f16'):format(M.MOST_SCALE)
    end
    local w = weight:detach():to('f32'):reshape(weight:size(1), -1, opts.group)
    if w.count == 0 then return nil end
    scale, min = scales_of(w, opts.bits, opts.minimum, 1)
    local most = w:abs():max(-1, true)
    local lost = most:gt(most:max() * NOTHING):logical_and(scale:eq(0))
    if min then lost = lost:logical_and(min:eq(0)) end
    return lost:any():item() == 1
      and 'a scale of its weights is below 2^-25, and in f16 nothing is left of it' or nil
  end)
end

--- Groups that were rounded one by one, as `round` gives a whole matrix.
---@param parts table[] value [n_out x group], scale, min [n_out x 1]
---@param n_out integer
---@param opts table bits, group, minimum
---@return table found
function M.joined(parts, n_out, opts)
  local value, scale, min = {}, {}, {}
  for i, part in ipairs(parts) do
    value[i], scale[i], min[i] = part.value:to 'f32', part.scale, part.min
  end
  local s, m = concat(scale, 2), opts.minimum and concat(min, 2) or nil
  local w = concat(value, 2):reshape(n_out, #parts, opts.group)
  local code = coded(w, s:reshape(n_out, #parts, 1), m and m:reshape(n_out, #parts, 1), opts.bits)
  return { code = code:reshape(n_out, -1), value = w:reshape(n_out, -1), scale = s:to 'f16',
    min = m and m:to 'f16' }
end

--- Bits that a weight takes, with its part of the scales.
---@param opts table bits, group, minimum
---@return number
function M.bits_of(opts)
  return opts.bits + (opts.minimum and 32 or 16) / opts.group
end

return M
