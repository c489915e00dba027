-- SPDX-License-Identifier: MIT
local session = require 'ridge.repl.session'

local function new()
  local out = {}
  local s = session.new { write = function(text) out[#out + 1] = text end }
  return s, function(line)
    out = {}
    local outcome = s:run(line)
    return table.concat(out), outcome
  end
end

describe('a session', function()
  it('shows every value of an expression, nothing of a statement', function()
    local _, run = new()
    assert.equal('2\n', run '1 + 1')
    assert.equal("1\n'a'\nnil\n", run "1, 'a', nil")
    assert.equal('nil\n', run 'nil')
    assert.equal('', run 'x = 1')
    assert.equal('', run '1 + 1;')
    assert.equal('', run '')
    assert.equal('', run '(function() end)()')
  end)

  it('says what went wrong in the numbers of a value, and shows what is inside tables', function()
    local s, run = new()
    s.env.broken = setmetatable({}, { __tostring = function()
      require('ridge.blame').raise('take, asked of the device earlier: index 9 is outside 0 .. 2')
    end })
    local text, outcome = run 'broken'
    assert.equal('failed', outcome)
    assert.matches('^error: take, asked of the device earlier: index 9 is outside 0 %.%. 2\n', text)
    text, outcome = run '{ broken, 1 }'
    assert.equal('done', outcome)
    assert.equal('{ {}, 1 }\n', text)
  end)

  it('keeps variables from line to line, locals too', function()
    local s, run = new()
    run 'local a = 1'
    run 'b = a + 1'
    assert.equal('2\n', run 'b')
    assert.is_nil(rawget(_G, 'a'))
    assert.is_nil(rawget(_G, 'b'))
    assert.equal(1, s.env.a)
  end)

  it('runs a file, or the text that is said to be in it', function()
    local s = new()
    local path = os.tmpname()
    local file = assert(io.open(path, 'w'))
    file:write '#!ridge\nlocal x = 1\n'
    file:close()
    assert.is_true(s:load(path))
    assert.equal(1, s.env.x)
    s:execute(path, 'x = 2')
    assert.equal(2, s.env.x)
    os.remove(path)
    s:execute(path, 'x = 3')
    assert.equal(3, s.env.x)
    assert.is_false(s:load(path))
  end)

  it('keeps the last four values, not more, and nothing large', function()
    local _, run = new()
    for i = 1, 6 do run(tostring(i)) end
    assert.equal('6\n5\n4\n3\n', run '_, _1, _2, _3')
    run '7'
    local text = run '("x"):rep(65 * 2^20);'
    assert.truthy(text:find 'not kept')
    assert.equal('7\n', run '_')
    run '("x"):rep(64 * 2^20);' -- just as much as is kept
    assert.equal(2 ^ 26 .. '\n', run '#_')
  end)

  it('names the near miss of an unknown variable', function()
    local _, run = new()
    run 'weight = 1'
    local text, outcome = run 'wieght'
    assert.equal('failed', outcome)
    assert.equal("error: undeclared variable 'wieght' (did you mean 'weight'?)\n", text)
    run 'weight = nil'
    assert.equal('nil\n', run 'weight')
  end)

  it('names the near miss of a field that is nil', function()
    local _, run = new()
    run 'ridge'
    assert.truthy(run('ridge.nn.Linaer(2, 3)'):find("(did you mean 'Linear'?)", 1, true))
    run 'net = ridge.nn.Sequential()'
    assert.truthy(run('net:prameters()'):find("(did you mean 'parameters'?)", 1, true))
    assert.truthy(run('exit'):find('Ctrl-D ends the session', 1, true))
    assert.is_nil(run('t = {} t.x()'):find('did you mean', 1, true))
  end)

  it('asks for more while a text is incomplete', function()
    local _, run = new()
    assert.equal('incomplete', select(2, run 'for i = 1, 3 do'))
    assert.equal('done', select(2, run 'for i = 1, 3 do\nend'))
  end)

  it('says where an error happened, but does not repeat the only line', function()
    local _, run = new()
    assert.equal("error: attempt to index global 't' (a nil value)\n",
      (run 'local t = nil t.x = 1'))
    local text = run 'function f(x)\n  return x.y.z\nend\nf {}'
    assert.truthy(text:find('at [2]:2  return x.y.z', 1, true))
    assert.truthy(text:find('from [2]:4  f {}', 1, true))
    text = run 'f {}'
    assert.truthy(text:find('at [2]:2  return x.y.z\n   from [3]:1  f {}', 1, true))
  end)

  it('survives whatever is raised', function()
    local _, run = new()
    for _, line in ipairs { 'error()', 'error(nil)', 'error({})', 'error({message = "m"})',
      'error(setmetatable({}, {__tostring = function() error "x" end}))', 'error(error)',
      'local function f() return f() + 1 end f()', 'string.rep("x", -1, {})', ')', '"abc',
      'x = = 1',
      'coroutine.wrap(function() error "in" end)()', 'setmetatable({}, {__tostring = 1})',
      'setmetatable({}, {__tostring = function() return 1 end})', 'return', 'break', 'goto x',
      'error(("x"):rep(1e5))', '("x"):rep(1e10)' } do
      local _, outcome = run(line)
      assert.is_not_nil(outcome, line)
    end
    assert.equal('2\n', run '1 + 1')
  end)

  it('tells the message of a raised table', function()
    local _, run = new()
    assert.truthy(run 'error({message = "the fact"})':find 'error: the fact')
  end)
end)
