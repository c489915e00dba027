-- SPDX-License-Identifier: MIT
-- Ctrl-C leaves every shape of endless loop, and the session goes on.
-- RIDGE_SOAK=n presses n times in each shape, in the one session: the long run of `make nightly`.
local program = require 'tests.lua.repl.program'

local ROUNDS = dofile('tests/op/due.lua').setting('RIDGE_SOAK', 1)

local SHAPES = {
  ['an empty loop'] = 'while true do end',
  ['a numeric for'] = 's = 0 for i = 1, math.huge do s = s + i end',
  ['an inner function'] = 'local function f(x) return x + 1 end s = 0 while true do s = f(s) end',
  ['sums over a table'] = 't = {1, 2, 3} while true do s = 0 for i = 1, 3 do s = s + t[i] end end',
  ['a nest of pcall'] = [[while true do
    pcall(function() pcall(function() while true do end end) end) end]],
  ['a coroutine'] = [[co = coroutine.wrap(function() while true do coroutine.yield(1) end end)
    while true do co() end]],
  ['a loop inside a coroutine'] = 'coroutine.wrap(function() while true do end end)()',
  ['pairs'] = 't = {a = 1, b = 2} while true do for k, v in pairs(t) do t[k] = v end end',
  ['gmatch'] = 'while true do for w in ("a b c"):gmatch "%a" do x = w end end',
  ['xpcall with a handler'] = [[while true do
    xpcall(function() error "x" end, function(m) return m end) end]],
  ['endless tail calls'] = 'function g() return g() end g()',
  ['a blocking read'] = 'io.read()',
  ['endless printing'] = 'while true do print(1) end',
  ['an endless __tostring'] =
    'return setmetatable({}, {__tostring = function() while true do end end})',
}

-- What ridge itself has open when the press comes must be closed again.
local OPEN = {
  ['a capture'] = [[x = ridge.ones(8) while true do
    pcall(ridge.capture, function() return x + 1 end) end]],
  ['a scope'] = 'x = ridge.ones(8) ridge.scope(function() while true do x:add(1) end end)',
  ['autocast'] = [[x = ridge.randn(64, 64)
    ridge.autocast('bf16', function() while true do x:matmul(x) end end)]],
  ['a layer'] = 'l = ridge.nn.Linear(8, 8) x = ridge.ones(2, 8) while true do l(x) end',
}

-- What takes long inside ridge, and inside what it starts.
local LONG = {
  ['a calibration'] = 'ridge.measure.calibrate{}',
  ['a measurement'] = [[x = ridge.ones(400, 400)
    while true do ridge.measure.point(function() return x:matmul(x) end, 'rigorous') end]],
  ['a replay'] = [[p = ridge.capture(function() return ridge.ones(8) + 1 end) p(2^50)]],
  ['a sweep'] = [[ridge.sweep 'endless' { space = { i = ridge.range(1, 500) },
    setup = function() return { x = ridge.randn(64, 64) } end, measure = function(p, c, m)
    m:time('fwd', ridge.capture(function() return c.x:matmul(c.x) end)) end }:run()]],
}

-- Commands of the prompt that run what they are given.
local COMMANDS = { 'time', 'prof', 'trace', 'bench --eager' }

describe('Ctrl-C at the prompt', function()
  local home, term

  setup(function()
    home = program.folder()
    term = program.prompt(home, { RIDGE_DB = home .. '/results.db' })
    term:expect '>> '
  end)

  teardown(function()
    term:stop()
    program.remove(home)
  end)

  --- Run what never ends, press, and see the prompt again.
  local function press_in(code, command)
    -- the text "running" is written by the loop's own chunk, so that the press finds it at work
    term:send(('%sio.write("run", "ning\\n") io.flush() %s\r'):format(command or '',
      (code:gsub('\n%s*', ' '))))
    term:expect 'running\n'
    os.execute(ROUNDS > 1 and ('sleep 0.%03d'):format(math.random(100)) or 'sleep 0.1')
    term:send '\3'
    term:expect 'interrupted\n'
    term:expect '>> '
  end

  --- The session still counts, and its memory is the one from before.
  local function expect_value(code, wanted)
    term:send(code .. '\r')
    term:expect(('\n%s\n'):format(wanted))
    term:expect '>> '
  end

  local n = 100
  for name, code in pairs(SHAPES) do
    it('leaves ' .. name, function()
      for _ = 1, ROUNDS do
        n = n + 1
        press_in(code)
        expect_value(n .. ' + 0', n)
      end
    end)
  end

  for name, code in pairs(LONG) do
    it('leaves ' .. name, function()
      press_in(code)
      expect_value('ridge.memory.depth()', 0)
      expect_value('ridge.ones(3):sum():item()', 3)
    end)
  end

  for _, name in ipairs(COMMANDS) do
    it('leaves %' .. name, function()
      press_in('while true do end', '%' .. name .. ' ')
      expect_value('6 * 7', 42)
    end)
  end

  it('is no loss of output where it ends a write that waits: the session ends with 0', function()
    local other = program.prompt(home)
    other:expect '>> '
    for _ = 1, 5 do
      other:send 'while true do print(1) end\r'
      os.execute 'sleep 0.2' -- nobody reads: the terminal is full, and the next line waits
      other:send '\3'
      other:insist('\3\21print("still " .. "here")\r', 'still here\n')
    end
    assert.equal(0, other:leave(), other.output:sub(-600))
  end)

  it('ends what the shell runs', function()
    term:send '!echo run"ning"; exec sleep 1000\r'
    term:expect 'running\n'
    term:send '\3'
    term:expect '(ended by signal 2)'
    term:expect '>> '
    expect_value('6 * 7', 42)
  end)

  -- With the hook of a press set, its loops over so many slots take longer than ridge's own code is
  -- let alone: left between two parts of the table, the next reaping wrote behind its lists.
  it('does not end what makes room for more handles', function()
    local function run(code)
      term:send(code:gsub('\n%s*', ' ') .. ' io.write("do", "ne\\n")\r')
      term:expect 'done\n'
      term:expect '>> '
    end
    run [[ref = require 'ridge.ffi.ref' x = ridge.ones(1) kept = {}
      pressed = loadstring([=[local press, x = ... return function() press() return x:view(1)
        end]=], '@ridge/pressed.lua')(require('ridge.host').interrupt, x)
      ref.settle() while ref.count() < 2^17 do kept[#kept + 1] = x:view(1) end]]
    term:send 'kept[#kept + 1] = pressed() while true do end\r'
    term:expect 'interrupted\n'
    term:expect '>> '
    expect_value('(ref.settle() or ref.count() - #kept) < 10', true)
    run 'kept = {} ref.collect() n = ref.count() for i = 1, 2^18 do kept[i] = x:view(1) end'
    expect_value('ref.count() - n', 2^18)
    run 'kept = nil ref.collect()'
    expect_value('ref.count() - n < 10', true)
  end)

  it('still works after the profiler was used', function()
    term:send 'require("jit.profile").start("li1", print) require("jit.profile").stop()\r'
    term:expect '>> '
    press_in 'while true do end'
    expect_value('6 * 7', 42)
  end)

  for name, code in pairs(OPEN) do
    it('closes ' .. name, function()
      for _ = 1, ROUNDS do press_in(code) end
      expect_value('ridge.ones(3):sum():item()', 3)
      expect_value('ridge.ones(2, 2):matmul(ridge.ones(2, 2)).dtype', "'f32'")
      expect_value('ridge.memory.depth()', 0)
    end)
  end
end)

describe('Ctrl-C in a recipe', function()
  local home, term

  before_each(function() home = program.folder() end)
  after_each(function()
    term:stop()
    program.remove(home)
  end)

  local function start(code)
    local path = home .. '/recipe.lua'
    local file = io.open(path, 'w')
    file:write('io.write "running\\n" io.flush()\n', code)
    file:close()
    term = program.prompt(home, {}, { path })
    term:expect 'running\n'
  end

  it('lets it come to its end and save', function()
    start 'local ridge = require "ridge" while not ridge.stopping() do end print "saved"'
    os.execute 'sleep 0.1'
    term:send '\3'
    term:expect 'stopping at the next good place'
    term:expect 'saved\n'
    assert.equal(130, term:wait())
  end)

  it('is an error at the second press, whatever pcall stands in between', function()
    start [[local ridge = require 'ridge'
      local x = ridge.ones(8)
      while true do pcall(function() x:add(1) end) end]]
    os.execute 'sleep 0.2'
    term:send '\3'
    term:expect 'stopping at the next good place'
    term:send '\3'
    term:expect 'interrupted\n'
    assert.equal(130, term:wait())
  end)

  it('ends a calibration with the second press', function()
    start 'require "ridge".measure.calibrate{}'
    os.execute 'sleep 0.3'
    term:send '\3'
    term:expect 'stopping at the next good place'
    term:send '\3'
    assert.equal(130, term:wait())
  end)

  it('ends the process at the third press, even in a compiled loop that asks nothing', function()
    start 'while true do end'
    os.execute 'sleep 0.1'
    term:send '\3'
    term:expect 'stopping at the next good place'
    term:send '\3'
    os.execute 'sleep 0.1'
    term:send '\3'
    assert.equal(-2, term:wait())
  end)
end)
