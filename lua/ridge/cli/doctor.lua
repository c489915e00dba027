-- SPDX-License-Identifier: MIT
--- `ridge doctor`: what this program is, what it found and did not find, what disturbs measuring on
--- this machine and what to do about it.

local args = require 'ridge.cli.args'
local ffi = require 'ffi'
local host = require 'ridge.host'
local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'
local variables = require 'ridge.variables'

local M = {}

M.summary = 'what this build has, what disturbs measuring here, what to do'
M.usage = 'ridge doctor [--seconds 1] [--device cuda | cuda:0] [--db FILE]'

local SPEC = {
  about = [[
What this program is and was built with; what disturbs measuring on this machine, and what to do.

    ridge doctor --seconds 5]],
  { 'seconds', 1, 'how long to look at the machine', min = 0.1, max = 60 },
  { 'db', '', 'database with the calibration; RIDGE_DB or results/ridge.db when left out' },
  { 'device', '', [[cuda:N: the GPU to look at too, the first one when left out; cuda: only what
                  is known of the GPUs, with status 1 where there is none]] },
}

local function row(name, value)
  plain.print(('%-10s %s\n'):format(name, value))
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

-- System SQLite below 3.51.3 can lose a log that two connections reset at once; ridge's own lock
-- around writes and checkpoints keeps that from happening among ridge processes.
local function sqlite()
  local db = require('ridge.store.sqlite').open(':memory:', 'read')
  local version = db:value 'SELECT sqlite_version()'
  db:close()
  return version .. ', writes and checkpoints under one lock'
end

-- What was measured of this machine's noise; nil where nothing is stored.
local function stored_noise(path)
  local ok, rows = pcall(require('ridge.sweep.calibrated').stored, path)
  if not (ok and rows) then return nil end
  local measure = require 'ridge.measure'
  local calibration = measure.calibration(rows, require('ridge.backend').threads())
  return calibration and calibration.noise
end

-- The GPU, or why there is none.
local function gpu(name)
  local device = require 'ridge.measure.device'
  local ok, number = pcall(device.number, name ~= '' and name
    or require('ridge.tensor.dtype').prefix() .. ':0', 'doctor')
  if not ok then
    local text = type(number) == 'table' and number.message or tostring(number)
    text = text:match '[^\n]*':gsub('^doctor: ', '')
    row('GPU', name ~= '' and text or 'none: ' .. text:gsub('^there is no device [%w:]*: ', ''))
    return nil
  end
  local f, state = device.facts(number), device.state(number)
  row('GPU', ('%s: %s, %s, %s%s'):format(device.name(number), f.name,
    f.capability and 'capability ' .. f.capability or 'capability unknown',
    f.mem and gigabytes(f.mem) or 'memory unknown',
    f.simulated and '; simulated: its times say nothing of any GPU' or ''))
  row('', ('driver %s%s, runtime %s'):format(f.driver or '?', state.driver
    and (' (%s)'):format(state.driver) or '', f.runtime or '?'))
  local libraries = require('ridge.device').libraries(device.name(number), true)
  row('', ('cublasLt %s, cuDNN %s'):format(libraries.cublaslt or '?', libraries.cudnn
    or libraries.why.cudnn or '?'))
  row('', ('NVRTC %s'):format(libraries.nvrtc or libraries.why.nvrtc or '?'))
  return device.name(number)
end

local MARK = { good = ' ', warning = '!', unavailable = '?' }

local function print_findings(opt)
  plain.print '\nmeasuring\n'
  local warnings = 0
  local findings = require('ridge.measure').doctor { seconds = opt.seconds,
    noise = stored_noise(opt.db ~= '' and opt.db or nil), device = opt.device }
  for _, f in ipairs(findings) do
    plain.print(('%s %-10s %s\n'):format(MARK[f.state], f.name, f.value))
    if f.advice and f.state == 'warning' then
      warnings = warnings + 1
      plain.print((' '):rep(13), f.advice, '\n')
    end
  end
  plain.print(('%d warning%s; ? is a signal that this machine hides, and that nothing calls '
    .. 'clean\n'):format(warnings, warnings == 1 and '' or 's'))
end

-- What is known of the GPUs, and nothing that takes time.
local function print_devices()
  local rows, found = require('ridge.cli.devices').rows()
  for _, entry in ipairs(rows) do row(entry[1], entry[2]) end
  return found and 0 or 1
end

--- Print the facts.
---@param argv string[]
---@return integer status 1 if the core cannot be used
function M.main(argv)
  local opt, rest = args.read(SPEC, argv or {})
  if not opt and rest == 'help' then
    plain.print(args.help(SPEC, 'doctor'), '\n')
    return 0
  elseif not opt then
    return stored.fail('doctor', rest)
  elseif opt.device ~= '' and not opt.device:find '^cuda:?%d*$'
      and not opt.device:find '^sim:?%d*$' then
    return stored.fail('doctor', ("there is nothing to say of device '%s'; known: 'cuda', 'cuda:0' "
      .. '...'):format(opt.device))
  end
  row('ridge', ('%s, %s'):format(host.version, require('jit').version))
  local ok, C = pcall(require, 'ridge.ffi.lib')
  if not ok then
    row('core', tostring(C))
    return 1
  end
  row('build', ffi.string(C.rg_build_facts()))
  if opt.device == 'cuda' or opt.device == 'sim' then return print_devices() end
  local machine = C.rg_machine_facts()
  row('processor', ('%s: %d cores, %d threads, %d usable'):format(ffi.string(machine.cpu),
    machine.n_cores, machine.n_threads, C.rg_processors()))
  row('', ffi.string(machine.isa))
  local _, threads, isa = host.machine()
  row('kernels', ('%s, %d threads'):format(isa, threads))
  row('memory', gigabytes(machine.ram_bytes))
  library('oneDNN', onednn)
  library('OpenBLAS', openblas)
  if C.rg_blas_is_recent() == 0 then
    row('', 'it runs kernels of before AVX2: it is older than this processor, or was told to')
    row('', 'products of f64 and svd are slow then (OPENBLAS_CORETYPE=Haswell, SkylakeX)')
  end
  library('SQLite', sqlite)
  opt.device = gpu(opt.device)
  for i, line in ipairs(require('ridge.cli.messages').lines()) do
    row(i == 1 and 'MPI' or '', line)
  end
  row('terminal', ('%s, %s columns, TERM=%s'):format(host.is_terminal(1) and 'yes' or 'no',
    host.columns() or '?', os.getenv 'TERM' or '(not set)'))
  row('history', require('ridge.repl.history').path() or 'not kept: there is no home folder')
  for i, line in ipairs(variables.lines()) do row(i == 1 and 'variables' or '', line) end
  if not os.getenv 'RIDGE_LUA' then row('sources', 'those embedded in this program') end
  print_findings(opt)
  return 0
end

return M
