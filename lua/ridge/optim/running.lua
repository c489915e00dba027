-- SPDX-License-Identifier: MIT
--- Running statistics (the mean and variance of batch normalisation, and every other buffer named
--- running_*): what a batch makes nan or infinite goes back to what it was. A step that is left out
--- would otherwise spoil evaluation for good.

local class = require('ridge.class').class
local grad = require 'ridge.tensor.grad'
local gradients = require 'ridge.optim.gradients'
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
  local index = make.arange(0, n - 1, { dtype = 'f64' }):to(now.device) + bad:reshape(n) * n
  now:copy_(ops.concat({ now:reshape(n), kept:reshape(n) }, 1):take(index:to 'i64')
    :reshape(now.shape))
end

-- Is all of it known to be finite? One look at everything together; nobody waits for a device. What
-- is finite and has no norm in f64 is looked at one by one.
local function is_fine(list)
  for _, each in ipairs(list) do
    if each.grad.device ~= 'cpu' then return false end
  end
  local norm = gradients.norm(list):item()
  return norm - norm == 0
end

--- Put back what is not finite, and remember the rest.
function Running:settle()
  local list = {} -- as gradients.norm has them
  for _, each in ipairs(self.list) do
    local now = mode.held(each.place)
    if now then list[#list + 1] = { grad = now, of = each } end
  end
  if #list == 0 then return end
  grad.no_grad(function()
    local fine = is_fine(list)
    for _, each in ipairs(list) do
      local now, of = each.grad, each.of
      if now.device ~= of.kept.device or now.dtype ~= of.kept.dtype then -- it was moved
        of.kept = ref.outlive(of.kept:to(now.device):to(now.dtype):clone())
      end
      if not fine then put_back(now, of.kept) end
      of.kept:copy_(now)
    end
  end)
end

return Running
