-- SPDX-License-Identifier: MIT
--- Running statistics (the mean and variance of batch normalisation, and every other buffer named
--- running_*): what a batch makes nan or infinite goes back to what it was. A step that is left out
--- would otherwise spoil evaluation for good.

local class = require('ridge.class').class
local grad = require 'ridge.tensor.grad'
local make = require('ridge.tensor.make').here
local memory = require 'ridge.memory'
local ops = require 'ridge.tensor.ops'
local ref = require 'ridge.ffi.ref'

local Running = class 'train.Running'

local FLOAT = { f32 = true, f64 = true, f16 = true, bf16 = true }

--- Remember what is there now.
---@param model table a module
function Running:init(model)
  self.list = {}
  for _, p in ipairs(model:parameters()) do
    if p.own:find '^running_' and FLOAT[p.tensor.dtype] and p.tensor.count > 0 then
      grad.no_grad(function()
        self.list[#self.list + 1] = { now = p.tensor, kept = ref.outlive(p.tensor:clone()) }
      end)
    end
  end
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
  grad.no_grad(memory.scope, function()
    for _, each in ipairs(self.list) do
      put_back(each.now, each.kept)
      each.kept:copy_(each.now)
    end
  end)
end

return Running
