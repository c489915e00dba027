-- SPDX-License-Identifier: MIT
--- How busy processors and GPUs are (F160), read between two pieces of work, never inside one.
--
-- The host's counters go on by themselves: what is read is the share since the reading before. Of a
-- GPU NVML says the share of the driver's last sampling period.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local heat = require 'ridge.monitor.heat'
local library = require 'ridge.ffi.library'

local M = {}

--- NVML's library; another one in tests.
M.NVML = 'libnvidia-ml.so.1'

ffi.cdef [[
typedef struct ridge_nvml_utilization { unsigned gpu, memory; } ridge_nvml_utilization;
int nvmlInit_v2(void);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **out);
int nvmlDeviceGetUtilizationRates(void *device, ridge_nvml_utilization *out);
]]

local GRAIN_NS = 1e8 -- counters go in steps of 10 ms: a shorter time says nothing

-- -- The host -----------------------------------------------------------------------------

--- The host's counters now.
---@return table|nil { at_ns, busy_ns, own_ns, n_cpus }
---@return string|nil why they cannot be read
function M.counters()
  local c = ffi.new 'rg_host_counters'
  if C.rg_host_counters_of(c) ~= 0 then return nil, ffi.string(C.rg_error_message()) end
  return { at_ns = c.at_ns, busy_ns = c.busy_ns, own_ns = c.own_ns, n_cpus = c.n_cpus }
end

-- A share of the processors' time in percent; nil where it is not known.
local function percent(ns, wall, n)
  local share = 100 * ns / (wall * n)
  return share == share and math.max(0, math.min(100, share)) or nil
end

--- What lies between two readings.
---@param before table
---@param after table
---@return table cpu_percent, process_percent (of all processors); why: what is unavailable
function M.between(before, after)
  local wall, out = after.at_ns - before.at_ns, {}
  if wall < GRAIN_NS then
    out.why = 'unavailable: less than 0.1 s have passed'
    return out
  end
  out.cpu_percent = percent(after.busy_ns - before.busy_ns, wall, after.n_cpus)
  out.process_percent = percent(after.own_ns - before.own_ns, wall, after.n_cpus)
  if not out.cpu_percent then out.why = 'unavailable: /proc/stat cannot be read' end
  return out
end

-- -- GPUs ---------------------------------------------------------------------------------

local opened = {} -- by name of the library: it, or why it cannot be used

local function open(name)
  if opened[name] == nil then
    local lib, why = library.open(name)
    local ok, code = pcall(function() return lib.nvmlInit_v2() end)
    if lib and ok and code == 0 then
      opened[name] = { lib = lib }
    else
      opened[name] = { why = ('unavailable: %s'):format(not lib and why
        or ok and ('%s cannot be started: %d'):format(name, code) or tostring(code)) }
    end
  end
  return opened[name]
end

--- How busy a GPU is.
---@param uuid string
---@return number|nil percent
---@return string|nil why it is not known
function M.gpu(uuid)
  local nvml = open(M.NVML)
  if nvml.why then return nil, nvml.why end
  local handle, rates = ffi.new 'void *[1]', ffi.new 'ridge_nvml_utilization'
  local ok, code = pcall(function()
    local status = nvml.lib.nvmlDeviceGetHandleByUUID(uuid, handle)
    if status == 0 then status = nvml.lib.nvmlDeviceGetUtilizationRates(handle[0], rates) end
    return status
  end)
  if not ok or code ~= 0 then
    return nil, ('unavailable: NVML says %s of %s'):format(tostring(code), uuid)
  end
  return tonumber(rates.gpu)
end

-- The GPUs that are open, by number: name and uuid.
local function gpus()
  local list = {}
  for i = 1, C.RG_DEVICE_COUNT - 1 do
    local facts = ffi.new 'rg_device_facts'
    if C.rg_memory_of(i) ~= nil and C.rg_device_facts_of(i, facts) == 0 then
      list[#list + 1] = { number = i, name = ffi.string(C.rg_device_name(i)),
        uuid = ffi.string(facts.uuid) }
    end
  end
  return list
end

-- -- Both ---------------------------------------------------------------------------------

--- How busy all are since the reading before.
---@param before table|nil of M.counters
---@return table reading cpu_percent, process_percent, why; celsius, clock_mhz of the processors
---  where the kernel tells them; gpus: by name { percent, celsius, clock_mhz, why }
---@return table|nil counters for the next one
function M.read(before)
  local after, why = M.counters()
  local out = before and after and M.between(before, after)
    or { why = why and 'unavailable: ' .. why or 'unavailable: nothing was read before' }
  local warm = heat.read()
  out.celsius, out.clock_mhz = warm.celsius, warm.clock_mhz
  out.gpus = {}
  for _, gpu in ipairs(gpus()) do
    local state, reading = ffi.new 'rg_device_state', {}
    reading.percent, reading.why = M.gpu(gpu.uuid)
    if C.rg_device_state_of(gpu.number, state) == 0 then
      reading.celsius = state.celsius == state.celsius and state.celsius or nil
      reading.clock_mhz = state.clock_mhz == state.clock_mhz and state.clock_mhz or nil
    end
    out.gpus[gpu.name] = reading
  end
  return out, after
end

return M
