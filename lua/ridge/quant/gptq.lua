-- SPDX-License-Identifier: MIT
--- GPTQ (Frantar et al., 2022): weights are rounded one after the other, and those that are not yet
--- rounded move so that the layer's output changes least.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local groups = require 'ridge.quant.groups'
local in_no_grad = require('ridge.tensor.grad').no_grad
local concat = require('ridge.tensor.ops').concat
local make = require 'ridge.tensor.make'
local where = require('ridge.tensor.choose').where

local M = {}

local DAMP = 0.01 -- of the mean of the diagonal, added to it: what never moved has to be invertible

local function array(tensor)
  local flat = tensor:to('cpu'):to('f64'):contiguous()
  local n = tonumber(flat.count)
  local out = ffi.new('double[?]', n)
  ffi.copy(out, flat._t._data, 8 * n)
  return out
end

-- Lower triangle with a = l l', in place; the rest of a is left.
local function cholesky(a, n)
  for j = 0, n - 1 do
    call.look 'quant.weights'
    local row = a + j * n
    for k = 0, j - 1 do
      local other, sum = a + k * n, row[k]
      for i = 0, k - 1 do sum = sum - row[i] * other[i] end
      row[k] = sum / other[k]
    end
    local sum = row[j]
    for i = 0, j - 1 do sum = sum - row[i] * row[i] end
    row[j] = math.sqrt(sum)
  end
end

-- The upper triangle u with inverse(a) = u' u, rows one behind the other. With r the reversed
-- order, r a r = l l' gives inverse(a) = r inverse(l)' inverse(l) r, and u is r inverse(l) r: so
-- one factor and one inverse of a triangle do for the factor of an inverse.
local function factor_of_inverse(h, n)
  local a, u = ffi.new('double[?]', n * n), ffi.new('double[?]', n * n)
  for i = 0, n - 1 do
    for j = 0, n - 1 do a[i * n + j] = h[(n - 1 - i) * n + n - 1 - j] end
  end
  cholesky(a, n)
  local inverse = ffi.new('double[?]', n * n) -- of l, lower
  for i = 0, n - 1 do
    call.look 'quant.weights'
    local row, own = a + i * n, inverse + i * n
    for k = 0, i - 1 do
      local by, other = row[k], inverse + k * n
      for j = 0, k do own[j] = own[j] - by * other[j] end
    end
    local scale = 1 / row[i]
    for j = 0, i - 1 do own[j] = own[j] * scale end
    own[i] = scale
  end
  for i = 0, n - 1 do
    for j = 0, n - 1 do u[i * n + j] = inverse[(n - 1 - i) * n + n - 1 - j] end
  end
  return u
end

-- Second moments that can be inverted: what never came in (a pixel that is always 0) does not bind
-- anything, and its weights are 0.
local function damped(moments)
  local n = moments.size
  local h, dead, mean = array(moments:mean()), {}, 0
  for i = 0, n - 1 do mean = mean + h[i * n + i] / n end
  for i = 0, n - 1 do
    local own = h[i * n + i]
    if own == 0 then
      dead[#dead + 1] = i + 1
      own = 1
    end
    h[i * n + i] = own + DAMP * mean
  end
  return h, dead
end

-- The columns of one group, one after the other; the errors that the rest has to make up for. What
-- is pruned (keep is false) stays 0, which is one more error for the rest (as SparseGPT has it).
local function round_group(w, u, scale, min, opts, keep)
  local off = {}
  for j = 1, opts.group do
    local column = w:narrow(2, j, 1)
    local _, value = groups.coded(column, scale, min, opts.bits)
    if keep then value = where(keep:narrow(2, j, 1), value, 0) end
    off[j] = (column - value) / u:narrow(1, j, 1):narrow(2, j, 1)
    column:copy_(value)
    local left = opts.group - j
    if left > 0 then
      w:narrow(2, j + 1, left):sub_(off[j]:matmul(u:narrow(1, j, 1):narrow(2, j + 1, left)))
    end
  end
  return concat(off, 2)
end

--- Round a matrix for the inputs that were seen.
---@param weight Tensor [n_out x n_in]
---@param moments table of ridge.quant.second_moment
---@param opts table bits, group, minimum, search, keep (bool as weight: what is not pruned; nil:
---  all)
---@return table found as ridge.quant.groups.round
function M.round(weight, moments, opts)
  return in_no_grad(function()
    local n_out, n_in = weight:size(1), weight:size(2)
    local h, dead = damped(moments)
    local u = make.empty(n_in, n_in, { dtype = 'f64' })
    local triangle = factor_of_inverse(h, n_in)
    call.check(C.rg_tensor_write(u._t, triangle, 8 * n_in * n_in))
    local w = weight:detach():to('cpu'):to('f64'):clone()
    for _, i in ipairs(dead) do w:narrow(2, i, 1):fill_(0) end
    local keep = opts.keep and opts.keep:to 'cpu'
    local parts = {}
    for first = 1, n_in, opts.group do
      local own = w:narrow(2, first, opts.group)
      local scale, min = groups.scales(own:to 'f32', opts)
      local diagonal = u:narrow(1, first, opts.group)
      local before = own:clone()
      local off = round_group(before, diagonal:narrow(2, first, opts.group), scale:to 'f64',
        min and min:to 'f64', opts, keep and keep:narrow(2, first, opts.group))
      parts[#parts + 1] = { value = before, scale = scale, min = min }
      local left = n_in - first - opts.group + 1
      if left > 0 then
        w:narrow(2, first + opts.group, left):sub_(off:matmul(diagonal:narrow(2,
          first + opts.group, left)))
      end
    end
    return groups.joined(parts, n_out, opts)
  end)
end

return M
