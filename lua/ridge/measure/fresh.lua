-- SPDX-License-Identifier: MIT
--- Candidates in a process of their own, made there anew: where memory and code lie is drawn again.
--
-- The length of the environment moves the stack and with it what shares a cache set (Mytkowicz et
-- al. 2009, "Producing wrong data without doing anything obviously wrong"), so each process has
-- another.  A process lives through all looks of a comparison and measures when it is asked to; it
-- ends when its channel closes.
--
-- Lines to the child: `make MODULE SPEC SETTING`, then `take NAME N SEED` or `time CALIBRATION`.
-- Lines back: `ready NAME ...`, `differ NAME WHY`, `blocks ...`, `timed RESULTS` or `error CODE
-- MESSAGE`.  Texts are in hexadecimal.

local agree = require 'ridge.measure.agree'
local blame = require 'ridge.blame'
local device = require 'ridge.measure.device'
local host = require 'ridge.measure.host'
local literal = require 'ridge.measure.literal'
local random = require 'ridge.measure.random'

local M = {}

-- -- Text ------------------------------------------------------------------------------

local function hex(text)
  return '=' .. text:gsub('.', function(c) return ('%02x'):format(c:byte()) end)
end

local function unhex(text)
  return (text:sub(2):gsub('%x%x', function(h) return string.char(tonumber(h, 16)) end))
end

local function text_of_setting(setting)
  local parts = {}
  for name, value in pairs(setting) do parts[#parts + 1] = name .. '=' .. tostring(value) end
  table.sort(parts)
  return table.concat(parts, '\n')
end

local function setting_of(text)
  local out = {}
  for name, value in text:gmatch '([^=\n]+)=([^\n]*)' do
    if value == 'true' or value == 'false' then
      out[name] = value == 'true'
    else
      out[name] = tonumber(value) or value
    end
  end
  return out
end

local function text_of_blocks(blocks)
  local parts = {}
  for i, b in ipairs(blocks) do
    parts[i] = ('%s,%s,%.17g,%.17g,%.17g,%.17g'):format(b.kind, b.design, unpack(b.times))
  end
  return table.concat(parts, ';')
end

local function blocks_of(text)
  local blocks = {}
  for part in text:gmatch '[^;]+' do
    local kind, design, rest = part:match '^(%l+),(%u+),(.*)$'
    local times = {}
    for number in rest:gmatch '[^,]+' do times[#times + 1] = tonumber(number) end
    blocks[#blocks + 1] = { kind = kind, design = design, times = times }
  end
  return blocks
end

-- -- Candidates in this process ------------------------------------------------------------

local Here = {}
Here.__index = Here

local function comparable(c) return c.plan ~= nil end

local function is_simulated(c)
  return type(c.plan) == 'table' and not c.plan.is_external
    and device.is_simulated(device.of_plan(c.plan))
end

-- A note of either candidate's plan: 'training', 'reduced'.
local function has(pair, note)
  for i = 1, 2 do
    if type(pair[i].plan) == 'table' and pair[i].plan[note] then return true end
  end
  return false
end

--- Candidates of this process, checked against each other.
---@param list table[]     each name, a, b (tables with plan, or window for tests); again: makes
---  such a list anew
---@param setting table    protocol's fields, slot_ns, check, tolerance
---@param services table   of ridge.measure.native
---@return table here      names(), take(name, n, seed), close()
---@return table|nil wrong name and why, when two of them do not compute the same
function M.here(list, setting, services)
  local self = setmetatable({ by_name = {}, order = {}, setting = setting, services = services,
                              again = list.again, made_ns = list.made_ns, keep = list.keep }, Here)
  for _, each in ipairs(list) do
    self.by_name[each.name], self.order[#self.order + 1] = { each.a, each.b }, each.name
    if setting.check and each.b and comparable(each.a) and comparable(each.b) then
      local why = agree.differ(agree.results(each.a.plan), agree.results(each.b.plan),
                               setting.tolerance)
      if why then return self, { name = each.name, why = why } end
    end
  end
  return self
end

function Here:names() return self.order end

-- Both candidates of a name made anew, and what lives as long as they do.
local function anew(again, name)
  return function()
    local list = again()
    for _, each in ipairs(list) do
      if each.name == name then return each.a, each.b, list.keep end
    end
    blame.raise(('ab: made anew there is no %s: a setup has to make the same each time'):format(
      name), 'EARG')
  end
end

-- What will be made anew for each block is not kept beside that; with the last of them goes what
-- they all read.
function Here:let_go(pair)
  pair[1], pair[2] = nil, nil
  for _, other in pairs(self.by_name) do
    if other[1] then return end
  end
  self.keep = nil
end

function Here:take(name, n, seed)
  local pair = self.by_name[name]
  if not (pair[2] or pair.slots) then
    blame.raise('ab: setup returns two candidates, a and b')
  end
  if not pair.slots then
    pair.simulated = is_simulated(pair[1]) or is_simulated(pair[2])
    pair.training, pair.reduced = has(pair, 'training'), has(pair, 'reduced')
    pair.slots = require('ridge.measure.slots').new(pair[1], pair[2], self.setting,
      self.setting.slot_ns, self.services, self.again and anew(self.again, name), self.made_ns)
    if self.again then self:let_go(pair) end
  end
  local before = self.services.counters()
  local blocks = pair.slots:take(n, seed)
  local step = host.step(before, self.services.counters())
  step.simulated, step.training, step.reduced = pair.simulated, pair.training, pair.reduced
  return blocks, step
end

-- The first candidates as points of one block, in the order of names().
function Here:time(calibration)
  local points, protocol = {}, {}
  for i, name in ipairs(self.order) do
    local a = self.by_name[name][1]
    points[i] = { plan = a.plan, label = name, cost = a.cost, zeros = a.zeros }
  end
  for name in pairs(require('ridge.measure.protocol').protocol()) do
    protocol[name] = self.setting[name]
  end
  -- what is one of several leaves it to them to show what processes differ by
  local between = not self.setting.alone and require('ridge.measure.variation').NONE or nil
  return require('ridge.measure.block').block(points, protocol,
    { calibration = calibration, between = between })
end

function Here:close() self.by_name = {} end

-- -- Candidates in another process ------------------------------------------------------------

local There = {}
There.__index = There

local MOST_PADDING = 4095

-- Other texts than the one wanted: the child's error, or its end.
local function expect(self, wanted)
  local line, why = self.process:receive()
  if not line then
    local how = self.process:wait()
    blame.raise(('ab: the process that measures ended (%s)'):format(how.signal > 0
      and ('signal %d'):format(how.signal) or ('status %d'):format(how.code)),
      why == 'closed' and how.signal == 2 and 'EINTR' or 'ESYS')
  end
  local kind, rest = line:match '^(%l+) ?(.*)$'
  if kind == 'error' then
    local code, message = rest:match '^(%S+) (%S+)$'
    blame.raise(unhex(message), code)
  end
  if not wanted[kind] then blame.raise('ab: a line nobody expected: ' .. line, 'EBUG') end
  return kind, rest
end

--- Start a process that makes candidates.
---@param source table   module (with candidates(spec), which returns a list of name, a, b), spec
---@param setting table  numbers, texts and booleans, see M.here; threads, isa, gemm
---@param seed integer   of the environment's length
---@return table there
function M.start(source, setting, seed)
  local padding = random.new(seed):integer(MOST_PADDING + 1) - 1
  local process = require('ridge.process').spawn {
    module = 'ridge.measure.fresh', out = 2, env = { RIDGE_PADDING = ('x'):rep(padding) },
  }
  local self = setmetatable({ process = process }, There)
  local text = text_of_setting(setting)
  local ok, err = pcall(process.send, process, ('make %s %s %s'):format(source.module,
    hex(source.spec), hex(text)))
  if not ok then
    self:close()
    error(err, 0)
  end
  return self
end

--- Wait until its candidates are made.
---@return table|nil wrong  name and why, when two of them do not compute the same
function There:ready()
  local kind, rest = expect(self, { ready = true, differ = true })
  if kind == 'differ' then
    local name, why = rest:match '^(%S+) (%S+)$'
    return { name = unhex(name), why = unhex(why) }
  end
  self.order = {}
  for name in rest:gmatch '%S+' do self.order[#self.order + 1] = unhex(name) end
end

function There:names() return self.order end

function There:take(name, n, seed)
  self.process:send(('take %s %d %d'):format(hex(name), n, seed))
  local _, rest = expect(self, { blocks = true })
  local seen, blocks = rest:match '^(%S+) (.*)$'
  return blocks_of(blocks), literal.decode(unhex(seen))
end

function There:time(calibration)
  self.process:send('time ' .. hex(literal.encode(calibration or {})))
  local _, rest = expect(self, { timed = true })
  return literal.decode(unhex(rest))
end

function There:close() self.process:close() end

-- -- The child ------------------------------------------------------------------------------

local function make(module, spec, setting)
  require('ridge.backend').apply(setting)
  local services = require('ridge.measure.native').services()
  local began = services.now()
  local list = require(module).candidates(spec)
  list.made_ns = services.now() - began
  return M.here(list, setting, services)
end

local function answer(state, line)
  local module, spec, setting = line:match '^make (%S+) (%S+) (%S+)$'
  if module then
    local wrong
    state.here, wrong = make(module, unhex(spec), setting_of(unhex(setting)))
    if wrong then return ('differ %s %s'):format(hex(wrong.name), hex(wrong.why)) end
    local names = {}
    for i, name in ipairs(state.here:names()) do names[i] = hex(name) end
    return 'ready ' .. table.concat(names, ' ')
  end
  local calibration = line:match '^time (%S+)$'
  if calibration then
    calibration = literal.decode(unhex(calibration))
    local results = state.here:time(next(calibration) and calibration or nil)
    for _, r in ipairs(results) do
      if r.error then error(r.error, 0) end
    end
    return 'timed ' .. hex(literal.encode(results))
  end
  local name, n, seed = line:match '^take (%S+) (%d+) (%d+)$'
  local blocks, seen = state.here:take(unhex(name), tonumber(n), tonumber(seed))
  return ('blocks %s %s'):format(hex(literal.encode(seen)), text_of_blocks(blocks))
end

--- What the child runs: answers lines until its parent is gone.
---@param channel table
function M.main(channel)
  local state = {}
  while true do
    local line = channel:receive(9e18)
    if not line then return end
    local ok, text = pcall(answer, state, line)
    if not ok then
      local code = blame.is_error(text) and text.code or 'EARG'
      if code == 'EINTR' then return end
      text = ('error %s %s'):format(code, hex(blame.is_error(text) and text.message
        or tostring(text)))
    end
    channel:send(text)
  end
end

-- -- In passes ------------------------------------------------------------------------------

-- The least number of passes that has an interval.
local PASSES = require('ridge.measure.passes').LEAST

--- What a pass takes of a protocol: its share of the time, and rounds enough for a median.
---@param protocol table   of measure.protocol
---@return table protocol  with processes, one a pass
function M.in_passes(protocol)
  local out = {}
  for name, value in pairs(protocol) do out[name] = value end
  out.processes = math.max(PASSES, protocol.processes or 0)
  out.min_rounds = 2
  out.max_rounds = math.max(2, math.floor(protocol.max_rounds / out.processes))
  out.budget_ns = protocol.budget_ns / out.processes
  out.warm_max_ns = math.max(protocol.warm_min_ns, protocol.warm_max_ns / out.processes)
  return out
end

-- -- One point in several processes ------------------------------------------------------------

--- Measure what a source makes in several fresh processes, one after the other, and join what they
--- found.
---@param source table       module and spec, see M.start
---@param protocol table     of measure.protocol, with processes
---@param calibration table|nil
---@param progress (fun(i: integer, n: integer))|nil
---@return string[] names
---@return table[] results  one a name, with procs
function M.points(source, protocol, calibration, progress)
  local setting, taken, names = { check = false }, {}, nil
  for name, on in pairs(device.modes()) do setting[name] = on end -- also where no GPU is open yet
  for name, value in pairs(require('ridge.backend').now()) do setting[name] = value end
  for name, value in pairs(protocol) do setting[name] = value end
  setting.processes, setting.alone = nil, protocol.processes == 1
  for i = 1, protocol.processes do
    local child = M.start(source, setting, protocol.seed + i)
    local ok, err = pcall(function()
      child:ready()
      names = child:names()
      for k, result in ipairs(child:time(calibration)) do
        taken[k] = taken[k] or {}
        taken[k][i] = result
      end
    end)
    child:close()
    if not ok then error(err, 0) end
    if progress then progress(i, protocol.processes) end
  end
  local merge, results = require 'ridge.measure.merge', {}
  local others = require('ridge.measure.minutes').source(calibration)
  for k, list in ipairs(taken) do
    results[k] = #list > 1 and merge.processes(list, protocol, others) or list[1]
    local cold = {}
    for i, r in ipairs(list) do cold[i] = r.cold end
    if #cold > 1 then results[k].cold = merge.processes(cold, protocol, others) end
    require('ridge.measure.shown').point(results[k])
  end
  return names, results
end

-- -- Functions as source ---------------------------------------------------------------------

--- A function that makes two candidates, as a source for other processes.
---@param f function  returns a and b; it reads no local of its surroundings
---@return table source
function M.source(f)
  local info = debug.getinfo(f, 'uS')
  if info.nups > 0 then
    local names = {}
    for i = 1, info.nups do names[i] = (debug.getupvalue(f, i)) end
    blame.raise(('setup runs in other processes, where its surroundings are not: it must not '
      .. 'use the local %s from outside (call require inside)'):format(table.concat(names, ', ')))
  end
  return { module = 'ridge.measure.fresh', spec = string.dump(f) }
end

--- The candidates of a function given to M.source.
---@param spec string
---@return table[] list  with again, which makes such a list anew
function M.candidates(spec)
  local f = loadstring(spec, '=setup')
  setfenv(f, setmetatable({ ridge = require 'ridge' }, { __index = _G }))
  local function made()
    local a, b = f()
    if a == nil then blame.raise('setup returns nothing to be measured') end
    return { { name = 'ab', a = { plan = a }, b = b ~= nil and { plan = b } or nil } }
  end
  made = require('ridge.measure.external').lasting(made)
  local list = made()
  list.again = made
  return list
end

--- Measure a plan in several fresh processes, each of which makes it anew.
-- >> measure.fresh(function()
-- >>   local ridge = require 'ridge'
-- >>   local x = ridge.ones(64, 64)
-- >>   return ridge.capture(function() return x:matmul(x) end)
-- >> end, { processes = 2 }).med
---@param setup function  returns the plan; it reads no local of its surroundings
---@param protocol string|table|nil  see measure.protocol; 'rigorous' (five processes) by default
---@param setting table|nil  calibration, progress (process, of how many)
---@return table result     as of measure.point, with procs
function M.point(setup, protocol, setting)
  if type(setup) ~= 'function' then
    blame.raise(('measure.fresh: a function is expected, got %s'):format(type(setup)))
  end
  protocol = require('ridge.measure.protocol').protocol(protocol or 'rigorous')
  protocol.processes = protocol.processes or 1
  setting = setting or {}
  local _, results = M.points(M.source(setup), protocol, setting.calibration, setting.progress)
  return results[1]
end

return M
