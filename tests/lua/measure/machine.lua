-- SPDX-License-Identifier: MIT
-- A made-up machine for the tests of measuring: its clock moves when something is timed, its noise
-- comes from a seeded generator, and every signal of its host can be set or hidden.

local random = require 'ridge.measure.random'

local NAN = 0 / 0

local Machine = {}
Machine.__index = Machine

local M = { NAN = NAN }

-- signals: what the host shows per second of time: busy_cpus (of others), steal, pressure (shares),
-- throttled (periods); hidden: list of counters that are NaN
function M.new(signals)
  return setmetatable({
    time = 1e9, signals = signals or {}, random = random.new(11), sentinel_runs = 0,
    counts = { busy = 0, own = 0, steal = 0, pressure = 0, throttled = 0 },
    clock_facts = { name = 'made-up', overhead_ns = 20, resolution_ns = 1 },
    n_cpus = 2, checks = 0, collections = 0,
  }, Machine)
end

function Machine:advance(ns)
  local s, c = self.signals, self.counts
  self.time = self.time + ns
  c.own = c.own + ns
  c.busy = c.busy + ns + ns * (s.busy_cpus or 0)
  c.steal = c.steal + ns * self.n_cpus * (s.steal or 0)
  c.pressure = c.pressure + ns * (s.pressure or 0)
  c.throttled = c.throttled + ns / 1e9 * (s.throttled or 0)
end

-- A point's window: time(i) is the relative noise of its i-th window since the machine began.
-- event(i) may mark one: { involuntary =, migrations = }.
function Machine:window(per_call_ns, time, event)
  local i = 0
  return function(k, n)
    local out = {}
    for w = 1, n do
      i = i + 1
      local begin_ns = self.time
      self:advance(k * per_call_ns * (1 + time(i)))
      local marks = event and event(i) or {}
      out[w] = { begin_ns = begin_ns, end_ns = self.time, calls = k,
                 own_cpu_ns = (self.signals.cores or 1) * (self.time - begin_ns),
                 involuntary = marks.involuntary or 0, migrations = marks.migrations or 0 }
    end
    return out
  end
end

function Machine:services()
  if self.made then return self.made end
  local machine = self
  local hide = {}
  for _, name in ipairs(self.signals.hidden or {}) do hide[name] = true end
  local function seen(name, value) return hide[name] and NAN or value end
  self.made = {
    now = function() return machine.time end,
    clock = function() return machine.clock_facts end,
    facts = function()
      return { governor = machine.signals.governor or 'performance', turbo = 1, n_cpus = 2,
               debugger = machine.signals.debugger or 0,
               debug_build = machine.signals.debug_build or false, mhz = machine.time }
    end,
    check = function()
      machine.checks = machine.checks + 1
      if machine.signals.interrupt_at and machine.checks >= machine.signals.interrupt_at then
        require('ridge.blame').raise('measure: interrupted', 'EINTR')
      end
    end,
    pause = function(_, ns) machine:advance(ns) end,
    sentinel = function()
      machine.sentinel_runs = machine.sentinel_runs + 1
      machine:advance(1e7)
      local slow = machine.signals.sentinel and machine.signals.sentinel(machine.sentinel_runs) or 1
      local hz = machine.signals.hz and machine.signals.hz(machine.sentinel_runs) or 3e9
      return { clock_ns = 1, compute_ns = 7e6 * slow, memory_ns = 4e6, clock_hz = hz }
    end,
    counters = function()
      local c = machine.counts
      return {
        at_ns = machine.time, own_ns = c.own, busy_ns = seen('busy_ns', c.busy),
        steal_ns = seen('steal_ns', c.steal), pressure_ns = seen('pressure_ns', c.pressure),
        n_throttled = seen('n_throttled', c.throttled), throttled_ns = seen('n_throttled', 0),
        n_cpus = seen('n_cpus', machine.n_cpus),
      }
    end,
  }
  return self.made
end

-- Noise that differs little and without order.
function Machine:quiet(amount)
  return function() return (amount or 1e-3) * self.random:normal() end
end

return M
