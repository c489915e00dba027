-- SPDX-License-Identifier: MIT
--- A profile while it is made: what its function may do with it. Sections begin and end, steps are
--- counted; by the schedule some steps are waited for, some warm up, and some are measured.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local counters = require 'ridge.profile.counters'
local kernels = require 'ridge.profile.kernels'
local options = require 'ridge.options'
local plain = require 'ridge.plain'
local ranges = require 'ridge.ranges'
local ring = require 'ridge.ring'
local samples = require 'ridge.profile.samples'
local state = require 'ridge.state'

local M = {}

local ROOM = 2 ^ 17 -- events whose memory is there before the first: 16 MB
local WINDOWS = 2 ^ 12 -- that are kept before it is asked which the ring has lost
local KINDS = 'op step plan range copy wait'

-- -- The reader -------------------------------------------------------------------------------

-- A state whose entry has a reader, which hears while `hears` is true.
M.HEARING = {}

function M.HEARING.on(entry)
  if entry.reader then
    entry.reader:hear(entry.hears)
  else
    entry.reader = ring.open(entry.kinds, entry.capacity, C.RG_READ_AXIS)
    entry.reader:reserve(math.min(ROOM, entry.capacity))
    entry.reader:hear(entry.hears)
  end
  ranges.WANTED.on()
  entry.is_on = true
end

function M.HEARING.off(entry)
  entry.reader:hear(false)
  ranges.WANTED.off()
  entry.is_on = false
end

--- A state whose entry's recording counts no time while the coroutine that it belongs to waits. It
--- is the innermost one: what begins and ends hearing and sampling is no part of the profile. At
--- its end time is counted on, until devices have done what they were asked for.
M.COUNTED = {
  on = function(entry) entry.recording:go_on() end,
  off = function(entry) entry.recording:wait() end,
  stop = function() end,
}

-- -- Making one ---------------------------------------------------------------------------------

local Recording = {}
Recording.__index = Recording

--- A recording that has not begun.
---@param opt table options of ridge.profile
---@return table recording
function M.new(opt)
  local kinds = opt.memory and KINDS .. ' alloc free' or KINDS
  local scheduled = opt.active ~= nil
  return setmetatable({
    opt = opt, windows = {}, most_windows = WINDOWS, lost_ns = 0, open = {}, notes = {}, taken = 0,
    measured = 0,
    cycle = scheduled and opt.wait + opt.warmup + opt.active or nil,
    hearing = { kinds = kinds, capacity = ring.fitting(opt.bytes), hears = not scheduled },
  }, Recording)
end

-- What the next step is there for.
local function phase_of(self)
  local n, opt = self.cycle, self.opt
  if not n then return 'active' end
  if opt.repeats > 0 and self.taken >= n * opt.repeats then return 'over' end
  local at = self.taken % n
  return at < opt.wait and 'wait' or at < opt.wait + opt.warmup and 'warmup' or 'active'
end

local function close_window(self)
  local last = self.windows[#self.windows]
  if last and not last.to then
    last.to, last.behind = tonumber(C.rg_clock_ns()), tonumber(C.rg_ring_serial())
  end
end

-- When the first event that is there began; nil: there is none, or none was lost.
local function first_kept(reader)
  if reader:facts().dropped == 0 then return nil end
  local event = reader:each()()
  return event and event.begin_ns
end

-- Time of which no event is left is not held against those that are.
local function leave_out(self, first)
  local kept = {}
  for _, window in ipairs(self.windows) do
    if window.to > first then
      local from = math.max(window.from, first)
      self.lost_ns = self.lost_ns + from - window.from
      kept[#kept + 1] = { from = from, to = window.to, first = window.first,
        behind = window.behind }
    else
      self.lost_ns = self.lost_ns + window.to - window.from
    end
  end
  self.windows = kept
end

-- A schedule without an end, or a coroutine that yields, opens a window each time: those whose
-- events the ring has lost go with them, or an hour of short steps would fill the memory.
local function leave_out_old(self)
  if #self.windows < self.most_windows then return end
  local first = self.hearing.reader and first_kept(self.hearing.reader)
  if first then leave_out(self, first) end
  self.most_windows = math.max(WINDOWS, 2 * #self.windows)
end

local function open_window(self)
  local last = self.windows[#self.windows]
  if last and not last.to then return end
  leave_out_old(self)
  self.windows[#self.windows + 1] = { first = tonumber(C.rg_ring_serial()),
    from = tonumber(C.rg_clock_ns()) }
end

-- Does what counts count?
local function count(self, on)
  if self.counters then self.counters:count(on) end
  if on then open_window(self) else close_window(self) end
end

--- What is profiled waits: its coroutine has yielded.
function Recording:wait()
  if self.phase == 'active' and not self.over then count(self, false) end
end

--- It goes on.
function Recording:go_on()
  if self.phase == 'active' and not self.over then count(self, true) end
end

local function enter_phase(self)
  local phase = phase_of(self)
  local hears = phase == 'active' or phase == 'warmup'
  self.hearing.hears = hears
  if self.hearing.is_on then self.hearing.reader:hear(hears) end
  local active = phase == 'active'
  if not active then count(self, false) end -- what begins and ends sampling is no part of it
  samples.want(self.sampling, active)
  if active then count(self, true) end
  self.phase = phase
end

--- It begins now.
function Recording:begin()
  local by_operation = self.opt.operation_counters
  if self.opt.counters or by_operation then self.counters = counters.new(by_operation) end
  local wanted = self.opt.kernels
  if wanted == nil then wanted = self.counters ~= nil end
  if wanted then self.kernels, self.untraced = kernels.new(self.opt.bytes) end
  enter_phase(self)
end

--- A step is through.
function Recording:step()
  if self.phase == 'active' then self.measured = self.measured + 1 end
  self.taken = self.taken + 1
  local before = self.phase
  if phase_of(self) ~= before or self.cycle then enter_phase(self) end
end

-- -- Sections -----------------------------------------------------------------------------------

--- A section begins.
---@param name string
function Recording:start(name)
  if type(name) ~= 'string' or name == '' then
    blame.raise(('profile:start: a name is expected, got %s'):format(blame.show(name)), 'EARG',
      'profile:start')
  end
  options.name(name, 'profile:start')
  local entry = { name = name, before = ffi.new 'rg_place', thread = coroutine.running() or 'main' }
  entry.range = C.rg_range_begin(name, 0, entry.before)
  self.open[#self.open + 1] = entry
end

local here = ffi.new('rg_place', { -1, nil, nil, -1 })

-- End the range; the place it was begun at comes back only where it still holds.
local function leave(entry)
  C.rg_place_swap(here)
  local now = ffi.new('rg_place', here)
  C.rg_place_swap(here)
  C.rg_range_end(entry.range, entry.range >= 0 and now.parent == entry.range and entry.before
    or now)
end

--- It ends.
---@param name string|nil the innermost one when left out
function Recording:stop(name)
  local entry = self.open[#self.open]
  if not entry then
    blame.raise(name and ("profile:stop: no section is open, so not '%s'"):format(tostring(name))
      or 'profile:stop: no section is open', 'EARG', 'profile:stop')
  end
  if name ~= nil and name ~= entry.name then
    blame.raise(("profile:stop: '%s' is the section to stop first, not %s"):format(entry.name,
      blame.show(name)), 'EARG', 'profile:stop')
  end
  if entry.thread ~= (coroutine.running() or 'main') then
    blame.raise(("profile:stop: the section '%s' was started in another coroutine"):format(
      entry.name), 'EARG', 'profile:stop')
  end
  self.open[#self.open] = nil
  leave(entry)
end

-- -- Its end ------------------------------------------------------------------------------------

local function close_sections(self)
  local names = {}
  for i = #self.open, 1, -1 do
    table.insert(names, 1, ("'%s'"):format(plain.line(self.open[i].name)))
    leave(self.open[i])
    self.open[i] = nil
  end
  if #names > 0 then
    self.notes[#self.notes + 1] = ('%s %s open at the end'):format(table.concat(names, ', '),
      #names == 1 and 'was' or 'were')
  end
end

local function total(windows)
  local ns = 0
  for _, window in ipairs(windows) do ns = ns + window.to - window.from end
  return ns
end

local function say_steps(self)
  local opt = self.opt
  if not self.cycle then return end
  local wanted = math.max(1, opt.repeats) * opt.active -- of endless cycles the first at least
  if self.measured < wanted then
    self.notes[#self.notes + 1] = ('%d of %s were measured: it ended behind step %d'):format(
      self.measured, plain.count(wanted, 'step'), self.taken)
  end
end

--- What was heard, when its state is still on.
---@return table found copy, windows, facts, ns, all_ns, notes, counts and why some are not there,
---  traced (kernels) or untraced, why they are not
function Recording:finish()
  local counts, uncounted
  if self.counters then
    counts, uncounted = self.counters:finish()
    self.counters = nil
  end
  close_sections(self)
  local waited, err = pcall(call.check, C.rg_device_wait(C.RG_EVERY_DEVICE))
  close_window(self)
  local traced
  if self.kernels then
    traced, self.untraced = self.kernels:finish()
    self.kernels = nil
  end
  if not waited then error(err, 0) end
  local reader = self.hearing.reader
  if state.take(self.hearing) then M.HEARING.off(self.hearing) end
  local facts, copy = reader:facts(), reader:copy()
  reader:close()
  say_steps(self)
  self.over = true
  if facts.dropped > 0 and copy.n > 0 then leave_out(self, tonumber(copy.events[0].begin_ns)) end
  local ns = total(self.windows)
  return { copy = copy, windows = self.windows, facts = facts, ns = ns, all_ns = ns + self.lost_ns,
    notes = self.notes, counts = counts, uncounted = uncounted, traced = traced,
    untraced = self.untraced }
end

return M
