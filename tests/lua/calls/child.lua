-- SPDX-License-Identifier: MIT
-- Random calls: ./ridge child.lua SEED FIRST LAST, in a folder with fit.db (measured.lua).
-- LAST below FIRST: no episodes, but calls that fit, of the names behind it, until each succeeds.
-- Episode n of a seed makes the same calls in every process. The file `last` says what is being
-- called. A call that takes seconds is stopped as Ctrl-C would, which ends the process with 3 or
-- 130; one that cannot be stopped dies of SIGALRM.

local ffi = require 'ffi'
local ridge = require 'ridge'
local blame = require 'ridge.blame'
local argument = require 'ridge.repl.argument'
local help = require 'ridge.repl.help'
local here = arg[0]:match '^(.*/)'
local fitting = dofile(here .. 'fitting.lua')
local judge = dofile(here .. 'judge.lua')
local targets = dofile(here .. 'targets.lua')
local values = judge.values

ffi.cdef [[
typedef struct { long interval_s, interval_ns, s, ns; } calls_timer;
int timer_create(int, void *, void **);
int timer_settime(void *, int, const calls_timer *, calls_timer *);
unsigned alarm(unsigned);
]]

local typed = arg
local seed, first, last = tonumber(arg[1]), tonumber(arg[2]), tonumber(arg[3])
rawset(_G, 'arg', { [0] = arg[0] }) -- ridge.args would end the process over the others
local CALLS = 50 -- of an episode
local patience = tonumber(os.getenv 'RIDGE_PATIENCE' or 2)

-- -- Time -------------------------------------------------------------------------------------

local event = ffi.new 'int[16]'
event[2], event[3] = 2, 0 -- sigev_signo = SIGINT, sigev_notify = SIGEV_SIGNAL
local timer = ffi.new 'void *[1]'
assert(ffi.C.timer_create(1, event, timer) == 0)
local armed, off = ffi.new('calls_timer', 2, 1e8, patience, 0), ffi.new('calls_timer')

local function limited(f, ...)
  local began = ridge.clock()
  ffi.C.alarm(60 + 20 * patience)
  ffi.C.timer_settime(timer[0], 0, armed, nil)
  local function finish(...)
    ffi.C.timer_settime(timer[0], 0, off, nil)
    if ridge.clock() - began >= patience then os.exit(3) end
    return ...
  end
  return finish(pcall(f, ...))
end

-- -- Arguments --------------------------------------------------------------------------------

local function words_of(text)
  local list = {}
  for word in text:gmatch "'([^'%s]+)'" do list[#list + 1] = word end
  return list
end

local value_of

-- Some of the options that a function checks its table against.
local function options_of(draw, spec)
  local names, out, texts = {}, {}, {}
  for name in pairs(spec) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local rule = spec[name]
    if draw:often(rule.required and 90 or 25) then
      local value, text
      if rule.choices and draw:often(80) then
        value = draw:one(rule.choices)
        text = tostring(value)
      elseif draw:often(85) then
        value, text = value_of(draw, rule[1], rule.doc or '')
      else
        value, text = draw:any()
      end
      out[name], texts[#texts + 1] = value, name .. ' = ' .. text
    end
  end
  return out, '{' .. table.concat(texts, ', ') .. '}'
end

local KIND = { { 'module', 'module' }, { 'model', 'module' }, { 'net', 'module' },
  { 'optimizer', 'optimizer' }, { 'generator', 'generator' }, { 'loader', 'loader' },
  { 'plan', 'plan' }, { 'protocol', 'protocol' }, { 'event', 'event' }, { 'sweep', 'sweep' },
  { 'store', 'store' } }

local MAKE = {
  number = function(draw) return draw:number() end,
  integer = function(draw) return draw:number() end,
  boolean = function(draw)
    local on = draw:often(50)
    return on, tostring(on)
  end,
  Tensor = function(draw) return draw:tensor() end,
  ['function'] = function(draw) return draw:func() end,
  any = function(draw) return draw:any() end,
  ['nil'] = function() return nil, 'nil' end,
  string = function(draw, about)
    local words = words_of(about)
    if #words > 0 and draw:often(80) then
      local word = draw:one(words)
      return word, ("'%s'"):format(word)
    end
    return draw:text()
  end,
  table = function(draw, about)
    for _, pair in ipairs(KIND) do
      if about:lower():find(pair[1], 1, true) then return draw:object(pair[2]) end
    end
    if draw:often(60) then return draw:numbers() end
    return draw:list()
  end,
}

-- A value of a type as docstrings write it: 'number|table|nil'.
function value_of(draw, kind, about)
  local kinds = {}
  for name in kind:gmatch '[%a]+' do
    if MAKE[name] then kinds[#kinds + 1] = name end
  end
  if #kinds == 0 then return draw:object() end
  return MAKE[draw:one(kinds)](draw, about)
end

local function arguments(draw, f, is_method)
  local given, texts = {}, {}
  local entry = type(f) == 'function' and help.entry_of(f)
  local params, shift = entry and entry.params or {}, 0
  if is_method and entry and (entry.of_tensor or not entry.method) then shift = 1 end
  local spec = type(f) == 'function' and argument.spec_of(f)
  local n = math.max(0, #params - shift)
  if #params == 0 then n = draw:pick(4) - 1 end
  if draw:often(15) then n = math.max(0, n + draw:pick(3) - 2) end
  for i = 1, n do
    local p = params[i + shift]
    local value, text
    if draw:often(20) or not p then
      value, text = draw:any()
    elseif spec and (p.name == 'opts' or p.name == 'options') and draw:often(80) then
      value, text = options_of(draw, spec)
    else
      value, text = value_of(draw, p.type, p.name .. ' ' .. p.type .. ' ' .. p.text)
    end
    given[i], texts[i] = value, text
  end
  return given, n, table.concat(texts, ', ')
end

-- -- Calls ------------------------------------------------------------------------------------

local functions = targets.functions()
local note = assert(io.open('last', 'wb'))
local told, reached, counts = {}, {}, { calls = 0, errors = 0, results = 0 }

local function complain(name, what, where, text)
  local key = name .. ' ' .. what
  if told[key] then return end
  told[key] = true
  io.stdout:write(('FAULT %s: %s [%s]\n      %s\n'):format(name, what, where,
    tostring(text):gsub('%c', ' '):sub(1, 300)))
  io.stdout:flush()
end

local function go(draw, name, f, given, n, where, shown, fits)
  note:seek 'set'
  local line = ('%s: %s(%s)'):format(where, name, shown):gsub('%c', '?'):sub(1, 1000)
  note:write(line, (' '):rep(1000 - #line), '\n')
  note:flush()
  local before = judge.state()
  local depth = ridge.memory.depth()
  local results
  local ok, e = limited(function()
    local function pack(...) return { n = select('#', ...), ... } end
    results = pack(f(unpack(given, 1, n)))
  end)
  counts.calls = counts.calls + 1
  local after = judge.state()
  ridge.memory.unwind(depth)
  if after ~= before then complain(name, 'leaves ' .. after .. ' behind', where, before) end
  if not ok then
    counts.errors = counts.errors + 1
    local fault = judge.fault(e, not ridge.is_tensor(given[1]))
      or fits and judge.hidden(e)
    if fault then complain(name, fault, where, tostring(e) .. ' <- ' .. shown) end
    return
  end
  counts.results = counts.results + 1
  if not reached[name] then
    reached[name] = true
    io.stdout:write('REACHED ', name, '\n')
  end
  ridge.memory.set_limit(2 ^ 28)
  local fine, why = limited(function()
    for i = 1, math.min(results.n, 6) do judge.read(results[i], 2) end
    for i = 1, n do judge.read(given[i], 1) end
  end)
  -- the little memory that calls have may not be enough to show what they returned
  local short = blame.is_error(why) and why.code == 'ENOMEM'
  if not fine and not short and not values.is_mine(why) then
    complain(name, 'gives what cannot be read', where, tostring(why) .. ' <- ' .. shown)
  end
  local kept = results[1]
  if type(kept) == 'table' and getmetatable(kept) or ridge.is_tensor(kept) then
    draw:keep(kept, 'what ' .. name .. ' returned')
  end
  return kept
end

local function method(draw, where, object, label)
  local names = targets.methods(object)
  local kind = label:match '^tensor' or label
  if #names == 0 or draw:often(12) then
    local entry = draw:one(targets.operators)
    local a, ta = draw:any()
    local b, tb = draw:any()
    -- of nothing but plain values of Lua, the operators are Lua's own
    go(draw, kind .. ' ' .. entry[1], entry[2], { object, a, b }, draw:pick(3), where,
      label .. ', ' .. ta .. ', ' .. tb)
    return
  end
  local name = draw:one(names)
  if targets.SLOW[kind .. ':' .. name] and draw:often(99) then return end
  local ok, f = pcall(function() return object[name] end)
  if not ok or type(f) ~= 'function' then return end
  -- what has no docstring is no user's to call
  if not ridge.is_tensor(object) and not help.entry_of(f) then return end
  local given, n, shown = arguments(draw, f, true)
  if draw:often(8) then
    object, label = draw:any()
    kind = 'anything'
  end
  go(draw, kind .. ':' .. name, f, { object, unpack(given, 1, n) }, n + 1, where,
    label .. ', ' .. shown)
end

-- A call whose arguments fit, or one of which was spoiled; what it gives goes on backwards.
local function fit(draw, where)
  local name = draw:one(fitting.names)
  local made, f, given, n, shown = pcall(fitting.call, draw, name)
  if not made or f == nil then return end -- of a type that has no such operation
  local spoiled = n > 0 and not fitting.WHOLE[name] and draw:often(40)
  if spoiled then
    local i = draw:pick(n)
    local value, text = draw:any()
    given[i], shown = value, ('%s, but argument %d is %s'):format(shown, i, text)
  end
  local y = go(draw, name, f, given, n, where, shown, not spoiled)
  if ridge.is_tensor(y) and pcall(y.size, y) and y.requires_grad then
    go(draw, name .. ' backward', function() return y:sum():backward() end, {}, 0, where, shown)
  end
  if ridge.is_tensor(y) and draw:often(20) then
    go(draw, name .. ' captured', function(...)
      local plan = ridge.capture(ridge.no_grad, f, ...)
      plan:run()
      return plan:run()
    end, given, n, where, shown)
  end
end

local threads = ridge.num_threads()

local function episode(number)
  local draw = values.new(seed * 1000003 + number)
  ridge.memory.set_limit(2 ^ 28)
  for i = 1, CALLS do
    local where = ('seed %d, episode %d, call %d'):format(seed, number, i)
    local way = draw:pick(100)
    if way <= 20 then
      fit(draw, where)
    elseif way <= 50 then
      local target = draw:one(functions)
      while targets.SLOW[target.name] and draw:often(99) do target = draw:one(functions) end
      local maker = target.class and rawget(target.f, 'init') or target.f
      local given, n, shown = arguments(draw, maker, false)
      go(draw, target.name, target.f, given, n, where, shown)
    elseif way <= 75 then
      local object, label = draw:object()
      method(draw, where, object, label)
    else
      local x, label = draw:tensor()
      method(draw, where, x, 'tensor ' .. label)
    end
    ridge.memory.set_limit(2 ^ 28)
  end
  ridge.set_num_threads(threads)
  ridge.backend.set_affinity {}
  ridge.backend.cpu {}
  ridge.set_default_device 'cpu'
  for _, alarm in ipairs(ridge.memory.alarms()) do alarm:remove() end
end

if first == 0 then -- only what can be called
  for _, target in ipairs(functions) do print('KNOWN ' .. target.name) end
  for _, name in ipairs(targets.methods(ridge.ones(1))) do print('KNOWN tensor:' .. name) end
  for name in pairs(fitting.METHODS) do print('KNOWN ' .. name) end
  for name in pairs(targets.NEVER) do print('NEVER ' .. name) end
  os.exit(0)
end
for i = 4, last < first and #typed or 0 do
  for n = 1, 200 do
    local made, f, given, count = pcall(fitting.call, values.new(seed * 1000003 + n), typed[i])
    if made and f and pcall(f, unpack(given, 1, count)) then
      print('REACHED ' .. typed[i])
      break
    end
  end
  for _, target in ipairs(functions) do -- without a line of its own: by the types it takes
    local tries = target.name == typed[i] and not fitting.FUNCTIONS[target.name] and 5000 or 0
    for n = 1, tries do
      if reached[target.name] then break end
      local draw = values.new(seed * 1000003 + n)
      local given, count, shown = arguments(draw, target.class and rawget(target.f, 'init')
        or target.f, false)
      go(draw, target.name, target.f, given, count, 'alone, call ' .. n, shown)
    end
  end
end
for number = first, last do
  note:seek('set', 1001)
  note:write(('episode %d\n'):format(number))
  note:flush()
  episode(number)
end
print(('DONE %d calls: %d errors, %d results'):format(counts.calls, counts.errors, counts.results))
