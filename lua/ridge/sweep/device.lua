-- SPDX-License-Identifier: MIT
--- What a sweep needs from the rest of ridge when its points run on a device: that of the CPU
--- (ridge.sweep.lab) with memory, facts, ceilings and lease of the device instead.

local device = require 'ridge.measure.device'
local lab = require 'ridge.sweep.lab'
local ridge_device = require 'ridge.device'

local M = {}

-- A device's ceilings do not depend on the threads of the host; rows want a number.
local NO_THREADS = 0

local Lab = setmetatable({}, { __index = lab })

-- What the numbers of a device depend on beside the host: who drives it, and how its kernels are
-- chosen. The words are part of what makes two rows comparable.
local function variables(facts, number)
  -- opened here where it will be used, so that all rows of a run know its version
  local libraries = ridge_device.libraries(device.name(number), device.modes().vendor)
  return { device_driver = facts.driver, device_runtime = facts.runtime,
           device_version = device.state(number).driver, device_cublaslt = libraries.cublaslt,
           device_cudnn = libraries.cudnn, device_nvrtc = libraries.nvrtc,
           device_modes = device.modes_text(),
           device_simulated = facts.simulated and 'yes' or nil }
end

local function facts_of(number)
  local facts, f = lab.facts(), device.facts(number)
  facts.device = { kind = f.kind, uuid = f.uuid, name = f.name, mem = f.mem,
    facts = { capability = f.capability, l2 = f.cache, units = f.units,
              simulated = f.simulated } }
  for name, value in pairs(variables(f, number)) do
    facts.env.vars[name] = value
  end
  return facts
end

local function with_memory(self, name)
  local memory = require 'ridge.memory'
  function self.memory() return memory.stats(name).live end
  function self.live_bytes()
    require('ridge.ffi.ref').collect()
    return memory.stats(name).live
  end
  function self.peak_above(fn)
    local before = self.live_bytes()
    memory.reset_peak(name)
    memory.scope(fn)
    return memory.stats(name).peak - before
  end
end

local function with_timing(self, name)
  local function calibration(ceilings)
    return require('ridge.measure').calibration(ceilings, NO_THREADS)
  end
  function self.block(points, protocol, ceilings, tick, taken)
    return require('ridge.measure').block(points,
      require('ridge.measure.protocol').of_pass(protocol),
      { calibration = calibration(ceilings), progress = tick, brief = true,
      taken = taken, between = require('ridge.measure.variation').NONE })
  end
  function self.fresh(source, protocol, ceilings, tick)
    return require('ridge.measure.fresh').points(source, protocol, calibration(ceilings), tick)
  end
  function self.calibrate(say, quick)
    return require('ridge.measure').calibrate { device = name, quick = quick, progress = say }
  end
end

--- The lab of a device; ridge.sweep.lab itself for the CPU.
-- >> require('ridge.sweep.device').lab('cpu').facts().device.kind
---@param name string|nil 'cpu', 'cuda:0' ...
---@return table lab as ridge.sweep.lab, with device (its name) and simulated
function M.lab(name)
  local number = device.number(name, 'sweep')
  if number == 0 then return lab end
  name = device.name(number)
  local self = setmetatable({ device = name, simulated = device.is_simulated(number) },
    { __index = Lab })
  function self.threads() return NO_THREADS end
  function self.facts() return facts_of(number) end
  function self.take_choices() return nil end -- those are of products on the CPU
  -- a simulated device is the CPU at work
  function self.lease()
    return require('ridge.sweep.lease').open(self.simulated and 'cpu' or ('gpu%d'):format(
      number - 1))
  end
  with_memory(self, name)
  with_timing(self, name)
  return self
end

return M
