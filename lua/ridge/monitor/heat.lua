-- SPDX-License-Identifier: MIT
--- Clock and temperature of the processors, where the kernel tells them; a guest mostly knows
--- neither.

local M = {}

--- Where the kernel's files are; another folder in tests.
M.ROOT = ''

local MOST = 64 -- of zones, sensors, processors that are looked at
local SENSORS = { coretemp = true, k10temp = true, zenpower = true, cpu_thermal = true }
local ZONES = { x86_pkg_temp = true, ['cpu-thermal'] = true, ['cpu_thermal'] = true }

local function word(path)
  local file = io.open(path)
  if not file then return nil end
  local text = file:read '*l'
  file:close()
  return text
end

-- Files that are there now: of the first processors' clocks, and of one temperature.
local function find(root)
  local found = { clocks = {} }
  for i = 0, MOST - 1 do
    local path = ('%s/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq'):format(root, i)
    if not word(path) then break end
    found.clocks[i + 1] = path
  end
  for i = 0, MOST - 1 do
    local zone = ('%s/sys/class/thermal/thermal_zone%d/'):format(root, i)
    local sensor = ('%s/sys/class/hwmon/hwmon%d/'):format(root, i)
    local kind = word(zone .. 'type')
    if kind and ZONES[kind] then found.heat = found.heat or zone .. 'temp' end
    local name = word(sensor .. 'name')
    if name and SENSORS[name] then found.heat = found.heat or sensor .. 'temp1_input' end
  end
  return found
end

local known = {} -- by root

--- What the kernel says now.
---@return table reading celsius, clock_mhz (the mean of the processors); nil where it is not told
function M.read()
  known[M.ROOT] = known[M.ROOT] or find(M.ROOT)
  local files, sum, n = known[M.ROOT], 0, 0
  for _, path in ipairs(files.clocks) do
    local khz = tonumber(word(path))
    if khz then sum, n = sum + khz, n + 1 end
  end
  local milli = files.heat and tonumber(word(files.heat))
  return { clock_mhz = n > 0 and sum / n / 1e3 or nil, celsius = milli and milli / 1e3 or nil }
end

return M
