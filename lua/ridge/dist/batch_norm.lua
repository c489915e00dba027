-- SPDX-License-Identifier: MIT
--- Batch normalisation over the batch of all ranks.
--
-- Each rank counts its elements of a channel, and takes their mean and their squared deviations
-- from it; those are joined pair by pair (Chan, Golub and LeVeque, 1979), in the order of the ranks
-- and on every rank alike. E[x^2] - E[x]^2 would lose all digits where the mean is large.
--
-- A gradient of one rank is that of its own loss, and those are averaged with weights later. What
-- flows back through the common mean and variance comes from all losses: it is added up with the
-- weights, and divided by this rank's, which the average multiplies by.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local class = require 'ridge.class'
local Function = require('ridge.tensor.function').Function
local make = require('ridge.tensor.make').here
local recompute = require 'ridge.tensor.recompute'
local norms = require 'ridge.nn.batchnorm'
local worlds = require 'ridge.world'

local M = {}

local WHAT = 'nn.BatchNorm'

-- -- Numbers of channels --------------------------------------------------------------------------

-- n doubles as a tensor of this type that goes along x.
local function along(values, n, like)
  local t = make.empty(n, { dtype = 'f64', device = 'cpu' })
  ffi.copy(ffi.cast('double *', t._t._data), values, 8 * n)
  return t:to { dtype = like.dtype, device = like.device }:reshape(like.shape)
end

-- Put a number for each channel into doubles.
local function put(values, at, x, n)
  local flat = x:to { dtype = 'f64', device = 'cpu' }:reshape(n):contiguous()
  ffi.copy(values + at, ffi.cast('const double *', flat._t._data), 8 * n)
end

-- What every rank has, one behind the other.
local function gather(world, own, n)
  local all = ffi.new('double[?]', n * world.size)
  worlds.run(world, WHAT, { kind = C.RG_GROUP_ALL_GATHER, dtype = C.RG_F64, count = n,
    ['in'] = own, out = all }, own, all)
  return all
end

-- -- Forward --------------------------------------------------------------------------------------

-- Count, mean and squared deviations of all, from those of the ranks: {count, weight, means,
-- deviations} each.
local function joined(all, n, ranks)
  local stride = 2 * n + 2
  local mean, spread = ffi.new('double[?]', n), ffi.new('double[?]', n)
  local count = 0
  for r = 0, ranks - 1 do
    local from = all + r * stride
    local more = from[0]
    if more > 0 then
      local sum = count + more
      for c = 0, n - 1 do
        local delta = from[2 + c] - mean[c]
        mean[c] = mean[c] + delta * (more / sum)
        spread[c] = spread[c] + from[2 + n + c] + delta * delta * (count * (more / sum))
      end
      count = sum
    end
  end
  return count, mean, spread
end

-- running = (1 - share) running + share value
local function blend(running, values, n, share, factor)
  for c = 0, n - 1 do values[c] = values[c] * (share * factor) end
  running:mul_(1 - share):add_(along(values, n, running))
end

-- x with mean 0 and variance 1 in each channel, over all ranks; f32 or f64.
local function normalised(norm, weight, world, axes, flat, count)
  local n = norm.n
  local all -- what the ranks told, for the backward pass
  return Function { name = WHAT, forward = function(context, x)
    local own = ffi.new('double[?]', 2 * n + 2, count, weight)
    local centred, middle
    if count > 0 then
      middle = x:mean(axes, true)
      centred = x - middle
      local rest = centred:mean(axes, true):to 'f64' -- what rounding the mean has left
      put(own, 2, middle:to 'f64' + rest, n)
      put(own, 2 + n, (centred:square():mean(axes, true):to 'f64' - rest:square()) * count, n)
    end
    all = gather(world, own, 2 * n + 2)
    local total, mean, spread = joined(all, n, world.size)
    context.total = total
    if total == 1 then
      blame.raise(('%s: one value a channel on all ranks has no variance; train with more rows')
        :format(WHAT), 'ESHAPE')
    end
    if count == 0 then
      context.y = x:clone()
    else
      local shift, inverse = ffi.new('double[?]', n), ffi.new('double[?]', n)
      put(shift, 0, middle, n)
      for c = 0, n - 1 do
        shift[c] = shift[c] - mean[c]
        inverse[c] = 1 / math.sqrt(spread[c] / total + norm.eps)
      end
      context.inverse = along(inverse, n, middle)
      context.y = (centred + along(shift, n, middle)) * context.inverse
    end
    if not recompute.again and total > 0 then -- once a step
      blend(norm.running_mean, mean, n, norm.momentum, 1)
      blend(norm.running_var, spread, n, norm.momentum, 1 / (total - 1))
    end
    return context.y
  end, backward = function(context, dy)
    local own = ffi.new('double[?]', 2 * n)
    if count > 0 then
      put(own, 0, dy:sum(axes, true), n)
      put(own, n, (dy * context.y):sum(axes, true), n)
    end
    local theirs = gather(world, own, 2 * n)
    if count == 0 then return dy end
    local sums = ffi.new('double[?]', 2 * n)
    for r = 0, world.size - 1 do
      local share = all[r * (2 * n + 2) + 1]
      if share > 0 then -- else its loss does not count, nor what flows back from it
        share = weight > 0 and share / weight / context.total or 0
        for c = 0, 2 * n - 1 do sums[c] = sums[c] + share * theirs[r * 2 * n + c] end
      end
    end
    local middle = make.empty(flat, { dtype = dy.dtype, device = dy.device })
    return (dy - along(sums, n, middle) - context.y * along(sums + n, n, middle))
      * context.inverse
  end }
end

local function forward(net, norm, x)
  local axes, flat, count = norms.axes(norm, x)
  if not axes then return nil end -- refused as ever
  local kind = x.dtype == 'f64' and 'f64' or 'f32'
  local y = normalised(norm, net.rows or 0, net.world, axes, flat, count)(x:to(kind))
  if norm.weight then y = y * norm.weight:to(kind):reshape(flat) end
  if norm.bias then y = y + norm.bias:to(kind):reshape(flat) end
  return y:to(x.dtype)
end

--- Let the batch normalisations of a net work on the batch of all ranks while it trains.
---@param net table a dist.DataParallel: world, rows of this rank
---@param module table
---@return table running by tensor: running statistics that are the same on all ranks now
function M.join(net, module)
  local weak = setmetatable({ net }, { __mode = 'v' })
  local running = {}
  local function visit(m)
    if class.is_a(m, norms.BatchNorm) then
      norms.together[m] = function(norm, x) -- holds neither, or both would stay for good
        return weak[1] and not weak[1].retired and forward(weak[1], norm, x)
      end
      running[m.running_mean], running[m.running_var] = true, true
    end
    for _, each in ipairs(m.children) do visit(each.module) end
  end
  visit(module)
  return running
end

return M
