-- SPDX-License-Identifier: MIT
--- Memory of the machine and of the process, as the system says it.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'

ffi.cdef 'long sysconf(int name);'

--- Where the system says it; another file in tests.
local M = { meminfo = '/proc/meminfo', statm = '/proc/self/statm' }

local PAGESIZE = 30 -- _SC_PAGESIZE

-- A file's text; nil and a sentence where it cannot be read.
local function read(path)
  local file, why = io.open(path)
  if not file then return nil, ('%s cannot be read'):format(why) end
  local text
  text, why = file:read '*a'
  file:close()
  if not text then return nil, ('%s: %s, it cannot be read'):format(path, tostring(why)) end
  return text
end

--- Bytes of the machine.
---@return table|nil { total, available }
---@return string|nil why it is not known
function M.machine()
  local text, why = read(M.meminfo)
  if not text then return nil, why end
  local total = tonumber(text:match 'MemTotal:%s+(%d+) kB')
  local available = tonumber(text:match 'MemAvailable:%s+(%d+) kB')
  if not total or not available or total <= 0 then
    return nil, ('%s does not say how much memory there is'):format(M.meminfo)
  end
  return { total = total * 1024, available = available * 1024 }
end

--- Percent of the machine's memory that is used.
---@return number|nil
---@return string|nil why it is not known
function M.percent()
  local m, why = M.machine()
  if not m then return nil, why end
  return 100 * (m.total - m.available) / m.total
end

--- Bytes of this process.
---@return table|nil { rss, vms }
---@return string|nil why it is not known
function M.process()
  local text, why = read(M.statm)
  if not text then return nil, why end
  local pages, resident = text:match '^(%d+) (%d+)'
  if not pages then return nil, ('%s does not say what the process has'):format(M.statm) end
  local page = tonumber(ffi.C.sysconf(PAGESIZE))
  return { vms = tonumber(pages) * page, rss = tonumber(resident) * page }
end

-- The fields of a GPU; nothing where there is none.
local function gpu(out, number, why)
  if number == 0 then
    out.gpu_why = why
    return
  end
  local m, facts = C.rg_memory_of(number), ffi.new 'rg_device_facts'
  out.gpu_allocated_mb = tonumber(m.live_bytes) / 2 ^ 20
  out.gpu_reserved_mb = tonumber(m.reserved_bytes) / 2 ^ 20
  out.gpu_memory_mb = out.gpu_allocated_mb
  if C.rg_device_facts_of(number, facts) == 0 then
    out.gpu_free_mb = tonumber(facts.free_bytes) / 2 ^ 20
  else
    out.gpu_why = ffi.string(C.rg_error_message())
  end
end

--- The fields of document 001.
---@param number number of the GPU; 0: there is none
---@param why string|nil why there is none
---@return table
function M.fields(number, why)
  local out = {}
  local machine, no_machine = M.machine()
  if machine then
    local used = machine.total - machine.available
    out.system_total_gb, out.system_used_gb = machine.total / 2 ^ 30, used / 2 ^ 30
    out.system_available_gb = machine.available / 2 ^ 30
    out.system_percent = 100 * used / machine.total
    out.memory_usage_percent = out.system_percent
  else
    out.system_why = no_machine
  end
  local process, no_process = M.process()
  if process then
    out.process_rss_mb, out.process_vms_mb = process.rss / 2 ^ 20, process.vms / 2 ^ 20
  else
    out.process_why = no_process
  end
  gpu(out, number, why)
  return out
end

return M
