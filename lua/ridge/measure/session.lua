-- SPDX-License-Identifier: MIT
--- What is found out once for a process: the clock, the host's settings, the reference work's time.
--
-- Found out again when the settings change (another governor, affinity or thread count): a
-- reference of another machine state would show shifts that are none.

local host = require 'ridge.measure.host'
local statistics = require 'ridge.measure.statistics'

local M = {}

local REFERENCE_RUNS = 5
local LOOK_NS = 5e8   -- on two processors 100 steps of /proc/stat: shares to one per cent

local sessions = setmetatable({}, { __mode = 'k' })

-- the clock frequency a guest reports changes by itself and is no setting
local function key_of(facts)
  local parts = {}
  for name, value in pairs(facts) do
    if name ~= 'mhz' then parts[#parts + 1] = name .. '=' .. tostring(value) end
  end
  table.sort(parts)
  return table.concat(parts, ' ')
end

--- Do other processes leave the machine alone?  Looks for half a second.
---@param services table  see ridge.measure.native
---@param longest_ns number|nil  look for so long at most
---@return boolean
function M.is_quiet(services, longest_ns)
  local before = services.counters()
  services:pause(math.min(LOOK_NS, longest_ns or LOOK_NS))
  local after = services.counters()
  return host.is_quiet(host.delta(before, after), after.n_cpus)
end

local function wait_for_quiet(services, longest_ns)
  local began = services.now()
  repeat
    if M.is_quiet(services, longest_ns) then return true end
    services.check()
  until services.now() - began >= longest_ns
  return false
end

local function reference(services)
  local runs = { clock_hz = {}, compute_ns = {}, memory_ns = {} }
  services:sentinel()   -- the first one touches memory that lies in no cache yet
  for i = 1, REFERENCE_RUNS do
    local times = services:sentinel()
    for name, list in pairs(runs) do list[i] = times[name] end
  end
  local medians = {}
  for name, list in pairs(runs) do medians[name] = statistics.median(list) end
  return medians
end

--- The session of a machine; looks at it first when it is new or its settings changed.
---@param services table  see ridge.measure.native
---@param protocol table  quiet_ns: how long to wait for other processes to end
---@return table session  clock, facts, reference, quiet
function M.of(services, protocol)
  local facts = services.facts()
  local key = key_of(facts)
  local session = sessions[services]
  if session and session.key == key then return session end
  session = { key = key, facts = facts, clock = services.clock() }
  session.quiet = protocol.quiet_ns <= 0 or wait_for_quiet(services, protocol.quiet_ns)
  session.reference = reference(services)
  sessions[services] = session
  return session
end

return M
