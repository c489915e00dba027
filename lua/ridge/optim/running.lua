-- SPDX-License-Identifier: MIT
--- Running statistics (the mean and variance of batch normalisation, and every other buffer named
--- running_*): what a batch makes nan or infinite goes back to what it was. A step that is left out
--- would otherwise spoil evaluation for good.

local class = require('ridge.class').class
local grad = require 'ridge.tensor.grad'
local make = require('ridge.tensor.make').here
local mode = require 'ridge.tensor.mode'
local ops = require 'ridge.tensor.ops'
local ref = require 'ridge.ffi.ref'

local Running = class 'optim.Running'

local FLOAT = { f32 = true, f64 = true, f16 = true, bf16 = true }

--- Remember what is there now.
---@param places table as ridge.tensor.mode has them: {tensor, module, own}
function Running:init(places)
  self.list = {}
  for _, place in ipairs(places) do
    local x = mode.held(place)
    if place.own:find '^running_' and x and FLOAT[x.dtype] and x.count > 0 then
      grad.no_grad(function()
        self.list[#self.list + 1] = { place = place, kept = ref.outlive(x:clone()) }
      end)
    end
  end
end

--- What an optimizer's modules have, remembered since this is asked first.
---@param optimizer table
---@return table
function Running.of(optimizer)
  if not optimizer.statistics then
    local places = {}
    for _, group in ipairs(optimizer.groups or {}) do
      for _, place in ipairs(group.buffers or {}) do places[#places + 1] = place end
    end
    optimizer.statistics = Running(places)
  end
  return optimizer.statistics
end

-- Each element, or the kept one where it is not finite. Chosen by position: nobody has to wait for
-- a device, and nan times 0 is nan.
local function put_back(now, kept)
  local n = now.count
  local bad = (now * 0):ne(0):to 'f64'
  if now.device == 'cpu' and bad:sum():item() == 0 then return end
  local index = make.arange(0, n - 1, { dtype = 'f64' }):to(now.device) + bad:reshape(n) * n
  now:copy_(ops.concat({ now:reshape(n), kept:reshape(n) }, 1):take(index:to 'i64')
    :reshape(now.shape))
end

--- Put back what is not finite, and remember the rest.
function Running:settle()
  grad.no_grad(function()
    for _, each in ipairs(self.list) do
      local now, kept = mode.held(each.place), each.kept
      if now and (now.device ~= kept.device or now.dtype ~= kept.dtype) then -- it was moved
        kept = ref.outlive(kept:to(now.device):to(now.dtype):clone())
        each.kept = kept
      end
      if now then
        put_back(now, kept)
        kept:copy_(now)
      end
    end
  end)
end

return Running
