-- SPDX-License-Identifier: MIT
--- Steps that are timed: watched ones, whose events say which layer each moment belongs to, and
--- ones that nobody looks on at, in turn.
--
-- Of both the faster half counts, and of that the mean: what disturbs a machine only makes it
-- slower, and means of layers add up to the mean of their steps, which medians would not.

local step = require 'ridge.analyze.step'
local watch = require 'ridge.analyze.watch'

local M = {}

local SPAN = 5e8 -- nanoseconds of all rounds, about
local LEAST, MOST = 4, 30 -- rounds
local FIRST = 6 -- steps at most by which they are chosen
local SHORT, MOST_AT_ONCE = 5e6, 6 -- steps of which several rounds run before their events are read

local function rounds_of(opt, ns)
  if opt.rounds then return opt.rounds end
  return math.max(LEAST, math.min(MOST, math.ceil(SPAN / (2 * ns))))
end

local function step_ns(job)
  local at = step.run(job)
  return at[3] - at[0]
end

-- A step that nobody looks on at: milliseconds of its phases.
local function plain_step(job)
  local at = step.run(job)
  return { forward = (at[1] - at[0]) / 1e6, loss = (at[2] - at[1]) / 1e6,
    backward = (at[3] - at[2]) / 1e6, total = (at[3] - at[0]) / 1e6 }
end

-- On a device its own time: asking it is not doing.
local function ms_of(b, on_device) return (on_device and (b.device_ns or 0) or b.ns) / 1e6 end

-- A watched one: milliseconds of each layer, forward and back. On a device what lies outside is
-- what is left.
local function watched_step(found, on_device)
  local total = (found.ns.forward + found.ns.loss + found.ns.backward) / 1e6
  local made, left = { total = total, rows = {} }, total
  for row, of in pairs(found.rows) do
    if row ~= found.outside then
      local forward = ms_of(of.forward, on_device) + ms_of(of.loss, on_device)
      local backward = ms_of(of.backward, on_device)
      made.rows[row], left = { forward, backward }, left - forward - backward
    end
  end
  local of = found.rows[found.outside]
  made.rows.outside = on_device and { math.max(0, left), 0 }
    or { (of.forward.ns + of.loss.ns) / 1e6, of.backward.ns / 1e6 }
  return made
end

-- Rounds, of which the events are read when all have run. Threads that slept while events were
-- read are woken by a step that nobody times, and garbage of before is collected: neither is part
-- of a step.
local function rounds(job, layers, n, plain, watched)
  local function pass() return step.run(job) end
  local events = {}
  collectgarbage()
  pass()
  for i = 1, n do
    if i % 2 == 1 then plain[#plain + 1] = plain_step(job) end
    events[i] = watch.run(pass)
    if i % 2 == 0 then plain[#plain + 1] = plain_step(job) end
  end
  for i = 1, n do
    watched[#watched + 1] = watched_step(watch.read(events[i], layers), job.device ~= 'cpu')
  end
end

-- The faster half of a list of steps.
local function faster_half(list)
  local sorted = { unpack(list) }
  table.sort(sorted, function(a, b) return a.total < b.total end)
  for i = #sorted, math.ceil(#sorted / 2) + 1, -1 do sorted[i] = nil end
  return sorted
end

local function mean_of(list, get)
  local sum = 0
  for _, entry in ipairs(list) do sum = sum + get(entry) end
  return sum / #list
end

-- The least of some steps: the first ones are cold, they try ways and take memory, and a net of a
-- fifth of a millisecond has needed eighty for each of four.
local function settled(job, ns)
  local spent = ns
  for _ = 2, FIRST do
    if ns <= SPAN / (2 * MOST) or spent >= SPAN then break end
    local again = step_ns(job)
    ns, spent = math.min(ns, again), spent + again
  end
  return ns
end

--- Time steps of a net.
---@param job table ridge.analyze.step
---@param layers table
---@param opt table rounds
---@return table|nil times rows (by row and 'outside': {forward, backward} in ms), forward, loss,
---  backward, total (of what nobody looked on at), rounds; nil for 0 rounds
function M.of(job, layers, opt)
  if opt.rounds == 0 then return nil end
  local ns = step_ns(job)
  if not opt.rounds then ns = settled(job, ns) end
  local n = rounds_of(opt, ns)
  local plain, watched, at_once = {}, {}, ns < SHORT and MOST_AT_ONCE or 2
  for done = 0, n - 1, at_once do
    rounds(job, layers, math.min(at_once, n - done), plain, watched)
  end
  plain, watched = faster_half(plain), faster_half(watched)
  local times = { rows = {}, rounds = n }
  for _, phase in ipairs { 'forward', 'loss', 'backward', 'total' } do
    times[phase] = mean_of(plain, function(s) return s[phase] end)
  end
  for _, s in ipairs(watched) do
    for row in pairs(s.rows) do times.rows[row] = times.rows[row] or false end
  end
  for row in pairs(times.rows) do
    local function ms(i)
      return mean_of(watched, function(s) return s.rows[row] and s.rows[row][i] or 0 end)
    end
    times.rows[row] = { ms(1), ms(2) }
  end
  return times
end

return M
