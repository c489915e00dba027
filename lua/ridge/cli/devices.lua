-- SPDX-License-Identifier: MIT
--- What `ridge doctor --device cuda` says: the driver, the GPUs (F1), the plugin that holds their
--- kernels, and the libraries that it can use; or, in a sentence, why there is none.

local ffi = require 'ffi'

local M = {}

-- Each with the major versions that are looked for, newest first.
local LIBRARIES = { { 'cublasLt', { 13, 12 } }, { 'cudnn', { 9 } }, { 'nvrtc', { 13, 12 } },
  { 'nccl', { 2 } } }
local MOST = 15 -- so many GPUs have names

-- 'CUDA 13.0', or nil where there is no driver.
local function driver_version()
  local found, driver = pcall(ffi.load, 'libcuda.so.1')
  if not found then return nil end
  pcall(ffi.cdef, 'int cuDriverGetVersion(int *version);')
  local version = ffi.new 'int[1]'
  local ok, code = pcall(function() return driver.cuDriverGetVersion(version) end)
  if not ok or code ~= 0 then return 'does not answer' end
  return ('CUDA %d.%d'):format(version[0] / 1000, version[0] % 1000 / 10)
end

-- The file that was mapped as the plugin; nil where none was.
local function plugin_path()
  local given = os.getenv 'RIDGE_GPU'
  local name = given and given:match '([^/]+)$' or 'libridge_gpu.so'
  for line in io.lines '/proc/self/maps' do
    local path = line:match ' (/.*)$'
    if path and path:sub(-#name - 1) == '/' .. name then return path end
  end
end

-- used: versions of those that the plugin has opened, by name.
local function library_rows(add, used)
  for _, entry in ipairs(LIBRARIES) do
    local name, versions = entry[1], entry[2]
    local found
    for _, version in ipairs(versions) do
      local file = ('lib%s.so.%d'):format(name, version)
      found = found or pcall(ffi.load, file) and file
    end
    local version = used[name]
    add(name, version and version .. (found and ', ' .. found or '')
      or found or ('not found (lib%s.so.%d)'):format(name, versions[1]))
  end
end

--- What is known of the GPUs, in the order in which it is printed.
---@return table[] rows each a name and a text
---@return boolean found  there is at least one GPU
function M.rows()
  local C = require 'ridge.ffi.lib'
  local rows, n = {}, 0
  local function add(name, text) rows[#rows + 1] = { name, text } end
  local version = driver_version()
  add('driver', version or 'none (libcuda.so.1)')
  local facts = ffi.new 'rg_device_facts'
  local why
  for i = 1, MOST do
    if C.rg_device_facts_of(i, facts) ~= 0 then
      why = ffi.string(C.rg_error_message())
      break
    end
    n = i
    local said = '%s, %.1f GB, %.1f GB free, capability %d.%d, %d units'
    add(ffi.string(C.rg_device_name(i)), said:format(
      ffi.string(facts.name), tonumber(facts.memory_bytes) / 2 ^ 30,
      tonumber(facts.free_bytes) / 2 ^ 30, facts.capability / 10, facts.capability % 10,
      facts.units))
  end
  if n == 0 then add('GPU', 'none: ' .. why:gsub('^%l+:0: ', '')) end
  add('plugin', plugin_path() or 'not loaded')
  local used = {}
  if n > 0 then
    local device = require 'ridge.device'
    local libraries = device.libraries(ffi.string(C.rg_device_name(1)), true)
    used = { cublasLt = libraries.cublaslt }
    for _, name in ipairs { 'cudnn', 'nvrtc', 'nccl' } do -- one that is there may still fail
      local words = { libraries[name], libraries.why[name] }
      used[name] = words[1] and words[2] and table.concat(words, ', but ') or words[1] or words[2]
    end
    add('runtime', 'CUDA ' .. (device.facts(ffi.string(C.rg_device_name(1))).runtime or '?'))
  end
  library_rows(add, used)
  return rows, n > 0
end

return M
