-- SPDX-License-Identifier: MIT
--- A profile: what was measured, and the forms it goes out in.

local blame = require 'ridge.blame'
local guard = require 'ridge.guard'
local options = require 'ridge.options'

local M = {}

local Profile = { __name = 'Profile' }
Profile.__index = Profile

--- One that is being made.
---@param opt table options of ridge.profile
---@param recording table
---@return table profile
function M.new(opt, recording)
  return setmetatable({ options = opt, recording = recording, unavailable = {} }, Profile)
end

-- -- While it is made ---------------------------------------------------------------------------

local function recording_of(p, what)
  if not p.recording then
    blame.raise(('profile:%s: it has ended; this is for the function that is profiled'):format(
      what), 'EARG', 'profile:' .. what)
  end
  return p.recording
end

--- Say that a step is through: the schedule goes on to the next one.
---@return table self
-- >> ridge.profile(function(p) for _ = 1, 9 do ridge.ones(9):exp() p:step() end end,
-- >>   { wait = 2, active = 3, repeats = 0 })
function Profile:step()
  recording_of(self, 'step'):step()
  return self
end

--- A section begins; others may begin in it.
---@param name string
---@return table self
-- >> ridge.profile(function(p) p:start 'forward'; ridge.ones(9):exp(); p:stop() end, { rows = 3 })
function Profile:start(name)
  recording_of(self, 'start'):start(name)
  return self
end

--- It ends.
---@param name string|nil the one that was started last when left out, and it must be that one
---@return table self
-- >> ridge.profile(function(p) p:start 'a'; p:stop 'a' end, { rows = 3 }).sections[1].name
function Profile:stop(name)
  recording_of(self, 'stop'):stop(name)
  return self
end

--- Call a function in a section, which ends with it, whether it returns or raises.
---@param name string
---@param f function
---@param ... any its arguments
---@return any what f returns
-- >> ridge.profile(function(p) p:section('forward', function() ridge.ones(9):exp() end) end,
-- >>   { rows = 3 })
function Profile:section(name, f, ...)
  recording_of(self, 'section')
  if type(name) ~= 'string' or not blame.callable(f) then
    blame.raise(('profile:section: a name and a function are expected, got %s and %s'):format(
      blame.show(name), blame.show(f)), 'EARG', 'profile:section')
  end
  options.name(name, 'profile:section')
  return require('ridge.profile').range(name, f, ...)
end

-- -- When it is there ---------------------------------------------------------------------------

local function ended(p, what)
  if p.recording then
    blame.raise(('profile:%s: it is being made still'):format(what), 'EARG', 'profile:' .. what)
  end
  return p
end

--- The ceilings that this machine is known to have: nil where there are none.
---@return table|nil roofs
function Profile:roofs()
  ended(self, 'roofs')
  if self.roof_known == nil then
    self.roof_known = require('ridge.profile.roof').known(self.options.roof) or false
  end
  return self.roof_known or nil
end

local BOTTLENECKS = {
  threshold = { 'number', min = 0, max = 1, doc = 'share of the time; 0.2 when left out' },
  top = { 'integer', min = 1, doc = 'how many at most; 3 when left out' },
}

--- What takes most of the time, why, and what to try.
---@param given table|nil threshold, top; as the profile's options when left out
---@return table list what, kind (layer, operation, overhead, wait), ns, share, reason (compute,
---  bandwidth, launch, data, waiting, path: far from any roof, unknown), why, of_roof, try (list of
---  { what, measure }); the most first
-- >> ridge.profile(function() local x = ridge.randn(99, 99) x:matmul(x) end):bottlenecks()
function Profile:bottlenecks(given)
  ended(self, 'bottlenecks')
  local opt = options.check(BOTTLENECKS, given, 'profile:bottlenecks')
  return require('ridge.profile.bottlenecks').find(self, opt.threshold or self.options.threshold,
    opt.top or self.options.top)
end

local TABLE = {
  by = { 'string', default = 'operation',
    choices = { 'operation', 'call', 'layer', 'section', 'lua', 'kernel' },
    doc = 'what a row is' },
  sort = { 'string', doc = "order of the rows, the largest first; the profile's when left out",
    choices = { 'time', 'total', 'calls', 'flops', 'bytes', 'rate', 'traffic', 'name' } },
  rows = { 'integer', min = 1, doc = 'how many; all when left out' },
}

--- A table as text.
---@param given table|nil by = 'operation', sort =, rows =
---@return string
-- >> ridge.profile(function() ridge.ones(9):exp() end):table { by = 'call', sort = 'calls' }
function Profile:table(given)
  ended(self, 'table')
  local opt = options.check(TABLE, given, 'profile:table')
  return require('ridge.profile.text').table(self, opt.by, opt.sort or self.options.sort,
    opt.rows or self.options.rows)
end

--- All of it as text: operations, layers, sections, steps of plans, kernels, lines of Lua.
---@return string
-- >> ridge.profile(function() ridge.ones(9):exp() end):text()
function Profile:text() return require('ridge.profile.text').text(self) end

--- Write it as a trace, for Perfetto or chrome://tracing: calls, modules and sections, memory,
--- kernels of GPUs (with the option `kernels`), arrows from a call to its gradient and its kernels.
---@param path string
-- >> ridge.profile(function() ridge.ones(9):exp() end):trace '/tmp/x.json'
function Profile:trace(path)
  require('ridge.profile.trace').write(ended(self, 'trace'), path)
end

--- Write it as a flame graph, an SVG that needs nothing else.
---@param path string
-- >> ridge.profile(function() ridge.ones(9):exp() end):flame '/tmp/x.svg'
function Profile:flame(path)
  require('ridge.profile.flame').write(ended(self, 'flame'), path)
end

--- It as folded stacks, "section;module;operation nanoseconds" a line, which flamegraph.pl reads.
---@param path string|nil a file that they are written to
---@return string|nil text when there is no path
-- >> ridge.profile(function() ridge.ones(9):exp() end):folded()
function Profile:folded(path)
  local text = require('ridge.profile.stacks').folded(ended(self, 'folded'))
  if path == nil then return text end
  require('ridge.ffi.output').write(path, 'profile:folded', text)
end

--- Write it for speedscope.app.
---@param path string
-- >> ridge.profile(function() ridge.ones(9):exp() end):speedscope '/tmp/x.json'
function Profile:speedscope(path)
  require('ridge.ffi.output').write(path, 'profile:speedscope',
    require('ridge.profile.stacks').speedscope(ended(self, 'speedscope')))
end

--- What ran when, as a picture: `:save 'x.png'`, `:show()`.
---@param path string|nil PNG file that it is saved to
---@return table figure
-- >> ridge.profile(function() ridge.ones(9):exp() end):plot():show()
function Profile:plot(path)
  local spans, unrecorded = require('ridge.profile.trace').spans(ended(self, 'plot'))
  if #spans == 0 then blame.raise('profile:plot: no call was made', 'EARG', 'profile:plot') end
  local figure = require('ridge.plot').draw('timeline', spans, { unrecorded = unrecorded,
    device = require('ridge.device').facts(spans[1].device).name })
  if path ~= nil then figure:save(path) end
  return figure
end

--- Its calls under the roofs of this machine, as a picture: `:save 'x.png'`, `:show()`. A point is
--- all calls of an operation with the same shapes; ceilings are those that `roof` names.
---@param path string|nil PNG file that it is saved to
---@return table figure
-- >> ridge.profile(function() ridge.ones(64, 64):matmul(ridge.ones(64, 64)) end):roofline():show()
function Profile:roofline(path)
  local rows = require('ridge.profile.roof').rows(ended(self, 'roofline'):roofs(), self.calls)
  if #rows == 0 then
    blame.raise('profile:roofline: no call on the CPU has operations and bytes that are counted',
      'EARG', 'profile:roofline')
  end
  local figure = require('ridge.plot').draw('roofline', rows, { y = 'call', by = 'operation' })
  if path ~= nil then figure:save(path) end
  return figure
end

require('ridge.types').register('Profile', function(value)
  return getmetatable(value) == Profile
end, {
  methods = { bottlenecks = 'bottlenecks(opt): what takes most, why, and what to try',
              table = 'table(opt): by operation, call, layer, section, lua or kernel',
              text = 'text(): all of it',
              trace = 'trace(path): for Perfetto and chrome://tracing',
              flame = 'flame(path): a flame graph, SVG', folded = 'folded(path): folded stacks',
              speedscope = 'speedscope(path): for speedscope.app',
              plot = 'plot(path): a picture, to :save(path) or :show()',
              roofline = 'roofline(path): its calls under the measured roofs',
              step = 'step(): a step is through', start = 'start(name): a section begins',
              stop = 'stop(name): it ends', section = 'section(name, f, ...): f in a section' },
})

guard.all(Profile)
require('ridge.profile.shown').profiles(Profile)

return M
