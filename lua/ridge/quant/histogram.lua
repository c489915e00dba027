-- SPDX-License-Identifier: MIT
--- How values lie, in bins of one width on both sides of 0. Where values lie outside, pairs of bins
--- become one, so that nothing counted is ever split or moved.

local ffi = require 'ffi'
local call = require 'ridge.ffi.call'

local M = {}

local BINS = 2048 -- on each side of 0

local Histogram = {}
Histogram.__index = Histogram

--- An empty one.
---@return table histogram n (values), zeros (of them), most
function M.new()
  return setmetatable({ count = ffi.new('double[?]', 2 * BINS), n = 0, zeros = 0, most = 0 },
    Histogram)
end

local function double(self)
  local count, wide = self.count, ffi.new('double[?]', 2 * BINS)
  for i = 0, 2 * BINS - 1 do
    local at = BINS + math.floor((i - BINS) / 2)
    wide[at] = wide[at] + count[i]
  end
  self.count, self.most = wide, 2 * self.most
end

--- Count the elements of a tensor, all of them finite.
---@param x Tensor
---@param most number the largest magnitude in it
function Histogram:add(x, most)
  if x.count == 0 then return end
  if self.most == 0 and most > 0 then self.most = 2 ^ math.ceil(math.log(most) / math.log(2)) end
  while self.most < most do double(self) end
  local flat = x:detach():to('cpu'):to('f32'):contiguous()
  local data = ffi.cast('const float *', flat._t._data)
  local count, scale = self.count, self.most > 0 and BINS / self.most or 0
  local zeros = 0
  call.stretches(flat.count, 'quant.static', function(first, last)
    for i = first, last do
      local at = math.floor(data[i] * scale)
      if at > BINS - 1 then at = BINS - 1 elseif at < -BINS then at = -BINS end
      count[BINS + at] = count[BINS + at] + 1
      if data[i] == 0 then zeros = zeros + 1 end
    end
  end)
  self.zeros = self.zeros + zeros
  self.n = self.n + flat.count
end

--- The bins that are not empty: their middles and counts, ascending.
---@param bare boolean|nil leave out values that are exactly 0
---@return number[] middles
---@return number[] counts
---@return number width
function Histogram:filled(bare)
  local width, middles, counts = self.most / BINS, {}, {}
  for i = 0, 2 * BINS - 1 do
    local n = self.count[i]
    if bare and i == BINS then n = n - self.zeros end
    if n > 0 then
      middles[#middles + 1] = (i - BINS + 0.5) * width
      counts[#counts + 1] = n
    end
  end
  return middles, counts, width
end

return M
