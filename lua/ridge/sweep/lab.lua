-- SPDX-License-Identifier: MIT
--- What a sweep needs from the rest of ridge: timer, memory, scopes, seeds, the machine's facts.
--
-- Each function loads what it stands on when it is called, and `run{ lab = ... }` puts another
-- table in its place: that is how a sweep is tested, or made to time something that is no plan.

local M = {}

-- Measuring ----------------------------------------------------------------------------------

--- Time the plans of one pass of a point, and of its partner, together (ridge.measure.block).
---@param points table list of { plan =, label =, cost =, zeros = }
---@param protocol table of the sweep
---@param ceilings table rows of calibrate, of this device
---@param tick function called with (label, rounds) between windows
---@param taken function|nil called with a point's number and each of its windows as it ends
---@return table results in the same order; one with `error` could not be measured
function M.block(points, protocol, ceilings, tick, taken)
  local measure = require 'ridge.measure'
  return measure.block(points, require('ridge.measure.protocol').of_pass(protocol),
    { calibration = measure.calibration(ceilings, M.threads()), progress = tick, brief = true,
      taken = taken, between = require('ridge.measure.variation').NONE })
end

--- Time what a source makes in several fresh processes (ridge.measure.fresh).
---@param source table module, spec
---@param protocol table
---@param ceilings table rows of calibrate, of this device
---@param tick function called with (process, of how many)
---@return table names
---@return table results one a name
function M.fresh(source, protocol, ceilings, tick)
  local measure = require 'ridge.measure'
  return require('ridge.measure.fresh').points(source, protocol,
    measure.calibration(ceilings, M.threads()), tick)
end

--- What the minutes of this machine differ by, as its times are widened by it.
---@param st table store
---@param env_id integer
---@param sweep_id integer the sweep that is measured
---@param ceilings table rows of calibrate
---@return table source of ridge.measure.minutes
function M.minutes(st, env_id, sweep_id, ceilings)
  return require('ridge.sweep.minutes').source(st, env_id, sweep_id,
    require('ridge.measure').calibration(ceilings, M.threads()))
end

--- Compute threads in use.
---@return integer n
function M.threads() return tonumber(require('ridge.ffi.lib').rg_threads()) end

--- Measure the machine's ceilings and noise at the threads in use; about ten seconds when quick.
---@param say function called with a line now and then
---@param quick boolean
---@return table rows each name, threads, unit, value, ci_lo, ci_hi
function M.calibrate(say, quick)
  return require('ridge.measure').calibrate { quick = quick, progress = say }
end

--- Do other processes leave the machine alone?
---@return boolean
function M.is_quiet()
  return require('ridge.measure.session').is_quiet(require('ridge.measure.native').services())
end

--- A protocol with all its defaults, as it is stored.
---@param given table|string what the recipe says
---@return table protocol
function M.protocol(given) return require('ridge.measure').protocol(given) end

--- Run a function with a scope of its own; what it raises comes out after the scope has ended.
---@param fn function
function M.scoped(fn)
  local memory = require 'ridge.memory'
  local depth = memory.depth()
  local ok, err = pcall(memory.scope, fn)
  if not ok then
    memory.unwind(depth)
    error(err, 0)
  end
end

--- Bytes live on the device now, after what is dead was collected.
---@return number bytes
function M.live_bytes()
  require('ridge.ffi.ref').collect()
  return require('ridge.memory').stats().live
end

--- Bytes above the live ones that a function needed at its highest point.
---@param fn function
---@return number bytes
function M.peak_above(fn)
  local memory = require 'ridge.memory'
  local before = M.live_bytes()
  memory.reset_peak()
  memory.scope(fn)
  return memory.stats().peak - before
end

--- Let the draws of a point begin at its own seed.
---@param seed integer
function M.seed(seed) require('ridge.ffi.lib').rg_seed(seed) end

--- Let what is made from now on lie elsewhere: memory that is free goes back to the system, and
--- fresh blocks begin a random number of cache lines and pages further on.
---@param seed integer 0 ends it
function M.shift(seed)
  local C = require 'ridge.ffi.lib'
  C.rg_memory_trim(0)
  C.rg_memory_shift(seed)
end

--- Bytes live now, as the allocator counts them, and those of Lua.
---@return number bytes
function M.memory()
  return require('ridge.memory').stats().live + collectgarbage 'count' * 1024
end

--- The tensors of a context copied to other places, in a table of the same names; what is no tensor
--- stays what it is.
---@param context any
---@return any context
function M.moved(context)
  local tensor = require 'ridge.tensor'
  if type(context) ~= 'table' or getmetatable(context) then
    return tensor.is(context) and context:clone() or context
  end
  local out = {}
  for key, value in pairs(context) do out[key] = tensor.is(value) and value:clone() or value end
  return out
end

--- A checksum of what a setup made (ridge.sweep.inputs).
---@param context any
---@return string|nil checksum
function M.inputs(context) return require('ridge.sweep.inputs').checksum(context) end

--- The lease of what is timed here (ridge.sweep.lease).
---@return table lease
function M.lease() return require('ridge.sweep.lease').open 'cpu' end

--- How to start this very recipe again in another process; nil where nothing would run it again: at
--- the prompt, on standard input, under plain luajit.
---@return table|nil words the arguments of this program
function M.command()
  local host = package.loaded['ridge.host']
  if not (host and host.settings and host.settings.restarts) then return nil end
  return require('ridge.sweep.child').own_words()
end

--- Whether the user asked to come to an end.
---@return boolean
function M.stopping() return require('ridge').stopping() end

--- Let a fatal signal leave a note in a file, so that whoever finds this process dead knows that it
--- died by its own doing.
---@param fd integer an open file; -1 ends it
---@param at integer byte offset
function M.crash_note(fd, at)
  require('ridge.ffi.call').check(require('ridge.ffi.lib').rg_crash_note(fd, at))
end

-- Facts --------------------------------------------------------------------------------------

local function read_line(path)
  local file = io.open(path)
  if not file then return nil end
  local line = file:read '*l'
  file:close()
  return line
end

local function positive(x)
  x = tonumber(x)
  return x > 0 and x or nil
end

local function text(chars)
  local s = require('ffi').string(chars)
  return s ~= '' and s or nil
end

local function system_name()
  local file = io.open '/etc/os-release'
  if not file then return nil end
  local name = file:read('*a'):match 'PRETTY_NAME="?([^"\n]+)'
  file:close()
  return name
end

local function is_virtual()
  local file = io.open '/proc/cpuinfo'
  if not file then return nil end
  local flags = file:read('*a'):match '\nflags%s*:([^\n]*)' or ''
  file:close()
  return (flags .. ' '):find(' hypervisor ', 1, true) and 'guest' or 'none'
end

-- Variables of the process that change what the libraries do.
local VARIABLES = { 'OMP_NUM_THREADS', 'OMP_PROC_BIND', 'OMP_PLACES', 'OMP_WAIT_POLICY',
  'GOMP_SPINCOUNT', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS', 'ONEDNN_MAX_CPU_ISA',
  'DNNL_MAX_CPU_ISA', 'ONEDNN_DEFAULT_FPMATH_MODE', 'MALLOC_ARENA_MAX', 'RIDGE_ISA' }

local function environment(C)
  local ffi = require 'ffi'
  local host = ffi.new 'rg_host_facts'
  require('ridge.ffi.call').check(C.rg_host_facts_of(host))
  local vars = require('ridge.backend').now()
  for _, name in ipairs(VARIABLES) do vars[name] = os.getenv(name) end
  local function known(x) return x >= 0 and x or nil end
  return { governor = text(host.governor), thp = text(host.thp), cpuset = text(host.cpuset),
    turbo = known(host.turbo), smt = known(host.smt), aslr = known(host.aslr),
    cpu_quota = host.quota_cpus < math.huge and host.quota_cpus or nil, vars = vars }
end

--- Let 'auto' take the paths that were measured on this machine and are kept in a database.
---@param st table
---@param last integer|nil rows up to this number
---@return table|nil taken as ridge.sweep.choices.take gives it; nil where none is taken:
---  `deterministic` is on
function M.take_choices(st, last)
  if not require('ridge.choices').decides() then return nil end
  return require('ridge.sweep.choices').take(st, { last = last })
end

--- Who measures: machine, device, build, environment.
---@return table facts
function M.facts()
  local ffi, C = require 'ffi', require 'ridge.ffi.lib'
  local canonical = require 'ridge.store.canonical'
  local m = C.rg_machine_facts()
  local cpu = text(m.cpu) or 'unknown'
  local build = canonical.decode(ffi.string(C.rg_build_facts()))
  return {
    machine = { cpu = cpu, isa = text(m.isa), sockets = positive(m.n_sockets),
      cores = positive(m.n_cores), threads = positive(m.n_threads), l1d = positive(m.l1d_bytes),
      l2 = positive(m.l2_bytes), l3 = positive(m.l3_bytes), ram = positive(m.ram_bytes),
      hostname = read_line '/proc/sys/kernel/hostname', os = system_name(),
      kernel = read_line '/proc/sys/kernel/osrelease', virt = is_virtual() },
    device = { kind = 'cpu', uuid = 'cpu', name = cpu, mem = positive(m.ram_bytes) },
    build = { ridge = ffi.string(C.rg_version()), git = build.git, dirty = build.dirty,
      compiler = build.compiler, flags = build.flags, debug = build.debug, libs = build.libs },
    env = environment(C),
  }
end

return M
