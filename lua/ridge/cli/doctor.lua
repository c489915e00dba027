-- SPDX-License-Identifier: MIT
--- `ridge doctor`: what this program is, what it found, what it did not find.

local ffi = require 'ffi'
local host = require 'ridge.host'

local M = {}

M.summary = 'what this machine and this build have, and what is missing'
M.usage = 'ridge doctor'

local function row(name, value)
  io.stdout:write(('%-10s %s\n'):format(name, value))
end

--- The version of a linked library by its own function, or that it does not answer.
local function library(name, ask)
  local ok, text = pcall(ask)
  row(name, ok and text or 'does not answer')
  return ok
end

local function onednn()
  ffi.cdef [[
    struct rg_dnnl { int major, minor, patch; const char *hash; unsigned cpu, gpu; };
    const struct rg_dnnl *dnnl_version(void);
  ]]
  local v = ffi.C.dnnl_version()
  return ('%d.%d.%d'):format(v.major, v.minor, v.patch)
end

local function openblas()
  ffi.cdef 'char *openblas_get_config(void);'
  return ffi.string(ffi.C.openblas_get_config())
end

local function gigabytes(bytes) return ('%.1f GB'):format(tonumber(bytes) / 2 ^ 30) end

--- Print the facts.
---@return integer status 1 if the core cannot be used
function M.main()
  row('ridge', ('%s, %s'):format(host.version, require('jit').version))
  local ok, C = pcall(require, 'ridge.ffi.lib')
  if not ok then
    row('core', tostring(C))
    return 1
  end
  row('build', ffi.string(C.rg_build_facts()))
  local machine = C.rg_machine_facts()
  row('processor', ('%s: %d cores, %d threads, %d usable'):format(ffi.string(machine.cpu),
    machine.n_cores, machine.n_threads, C.rg_processors()))
  row('', ffi.string(machine.isa))
  local _, threads, isa = host.machine()
  row('kernels', ('%s, %d threads'):format(isa, threads))
  row('memory', gigabytes(machine.ram_bytes))
  library('oneDNN', onednn)
  library('OpenBLAS', openblas)
  row('GPU', 'none: this build has no GPU backend')
  row('terminal', ('%s, %s columns, TERM=%s'):format(host.is_terminal(1) and 'yes' or 'no',
    host.columns() or '?', os.getenv 'TERM' or '(not set)'))
  row('history', require('ridge.repl.history').path() or 'not kept: there is no home folder')
  row('RIDGE_LUA', os.getenv 'RIDGE_LUA' or 'not set: the embedded sources are used')
  return 0
end

return M
