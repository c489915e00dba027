-- SPDX-License-Identifier: MIT
local parse = require 'ridge.repl.parse'
local unfinished = require 'ridge.repl.unfinished'

local function kind(source) return parse.compile(source, '=x').kind end

describe('a typed text', function()
  it('is an expression or statements', function()
    assert.equal('expression', kind '1 + 1')
    assert.equal('expression', kind '1 + 1;')
    assert.equal('expression', kind 'f(x), 2')
    assert.equal('statement', kind 'x = 1')
    assert.equal('statement', kind 'local x = 1')
    assert.equal('statement', kind 'return 1')
    assert.equal('statement', kind '')
    assert.equal('statement', kind '-- a comment')
  end)

  it('is incomplete where another line can finish it', function()
    for _, source in ipairs {
      '{1,', 'x +', 'f(', 'for i = 1, 3 do', 'if x then', 'function f()', 'x =', 'x = {', '[[abc',
      '--[[ abc', 'repeat', 'local x =', 'local function f()', 'not',
    } do
      assert.equal('incomplete', kind(source), source)
    end
  end)

  it('is wrong where nothing can finish it', function()
    for _, source in ipairs { '"abc', 'x y', ')', 'end', '1 = 2', 'for for', 'x = = 1' } do
      assert.equal('error', kind(source), source)
    end
  end)

  it("may begin with '=', as at Lua's own prompt", function()
    for _, source in ipairs { '= 1 + 1', ' =1 + 1' } do
      local parsed = parse.compile(source, '=x')
      assert.equal('expression', parsed.kind)
      assert.equal(2, select(2, parsed.chunk()))
    end
    assert.equal('error', kind '== 1')
  end)

  it('says how a command of the shell is written', function()
    local function message(source) return parse.compile(source, '=x').message end
    assert.matches('; %?ridge.nn.Linear shows help$', message 'help ridge.nn.Linear')
    assert.matches('; it is written ridge.show%(...%)$', message 'show 3')
    assert.matches('; it is written ridge.top%(...%)$', message 'top widths')
    assert.is_nil(message('zork 3'):find('written', 1, true))
  end)

  it('keeps its own frame in tracebacks: no tail call', function()
    local parsed = parse.compile('f()', '=[7]')
    local where
    setfenv(parsed.chunk, { f = function() where = debug.getinfo(2, 'Sl') end })()
    assert.equal('=[7]', where.source)
  end)

  it('is silent with a semicolon behind it', function()
    assert.is_true(parse.silent 'x;')
    assert.is_true(parse.silent 'x; -- why')
    assert.is_false(parse.silent 'x -- ;')
    assert.is_false(parse.silent '"x;"')
  end)
end)

describe('a text of many lines', function()
  -- Typed line by line: how each text came out, what the compiler was asked, what is left; and, for
  -- a test that fails, where each one ended, how long it was and what the compiler said.
  local function typed(lines)
    local bytes, kinds, pending, ends = 0, {}, nil, {}
    for number, line in ipairs(lines) do
      local text = line
      if pending then text = pending:add(line) end
      if text then
        bytes = bytes + #text
        local parsed = parse.compile(text, '=x')
        local found = parsed.kind
        if found == 'incomplete' then
          pending = pending or unfinished.new(text)
        else
          kinds[#kinds + 1], pending = found, nil
          ends[#ends + 1] = ('line %d of %d, %d bytes: %s'):format(number, #lines, #text,
            tostring(parsed.message))
        end
      end
    end
    return kinds, bytes, pending, ends
  end

  local function many(first, line, last, n)
    local lines = { first }
    for i = 1, n or 1000 do lines[#lines + 1] = (line:gsub('N', i)) end
    lines[#lines + 1] = last
    return lines
  end

  it('is compiled a few times, however long it is', function()
    for _, lines in ipairs {
      many('t = {', '  { name = "entry N", value = N, text = [[N]] },', '}'),
      many('function f(x)', '  if x == N then x = x + N elseif x then x = -x end', 'end'),
      many('s = [==[', 'any text ]] "N ( { function', ']==]'),
      many('--[[', 'any text', ']] x = 1'), many('x = 0 +', '  N +', '  0'),
      many("x = 'a' ..", "  'N" .. ('y'):rep(300) .. "' ..", "  'z'", 100),
      many('f(', '  N,' .. (' '):rep(300), '  0)', 200),
      many('if x', '  and x ~= N', 'then x = 1 end', 900),
      many('while x', ' or x == N', 'do x = 1 end', 900),
      many('do', 'x = function() for i = 1, N do print(i) end end', 'end'),
      many('x = (', '-- N', '1)'), many('x =', '', '3'),
    } do
      local total = 0
      for _, line in ipairs(lines) do total = total + #line + 1 end
      local kinds, bytes, pending = typed(lines)
      assert.equal(1, #kinds, lines[1])
      assert.is_true(kinds[1] == 'statement' or kinds[1] == 'expression', lines[1])
      assert.is_nil(pending)
      -- short texts are tried at every line, and long ones when they have grown by a quarter
      assert.is_true(bytes < 6 * total + 4096 * 4096,
        ('%s: %d of %d'):format(lines[1], bytes, total))
    end
  end)

  it('ends in the very line in which it ends for the compiler', function()
    local group = { 'xN = {', '  a = "]] end } --", b = [[', 'end ( {', ']],', '}',
      'for i = 1, 2 do', '  while i > 3 do', '    repeat i = i + 1 until', '      i > 2', '  end',
      'end', 'function g(', '  a, b', ') return a', 'end', 'y = 1 --[=[ (', ']=]', 'z = not', 'x1' }
    -- The table stands outside of the loops: LuaJIT of 2022 compiled loops over one that is made in
    -- an outer loop so that most of its lines were left out, in one of some hundred processes.
    local lines = {}
    for i = 1, 400 do
      for _, line in ipairs(group) do lines[#lines + 1] = (line:gsub('N', i)) end
    end
    assert.equal(400 * 19, #lines)
    -- as one block, so that the text is long from some line on
    table.insert(lines, 1, 'do')
    lines[#lines + 1] = 'end'
    local kinds, _, _, ends = typed(lines)
    assert.same({ 'statement' }, kinds, table.concat(ends, '\n', 1, math.min(#ends, 30)))
    lines[#lines] = nil
    table.remove(lines, 1)
    local ended = {}
    for _, found in ipairs((typed(lines))) do ended[found] = (ended[found] or 0) + 1 end
    assert.same({ statement = 400 * 5 }, ended)
  end)

  it('with a mistake in it is wrong there while it is short, and soon after it when it is long',
    function()
      assert.same({ 'error' }, (typed { 'function f()', 'x y' }))
      local lines = many('t = {', '  N,', nil)
      lines[#lines + 1] = 'x y'
      for i = 1, 3000 do lines[#lines + 1] = i .. ',' end
      assert.equal('error', (typed(lines))[1])
    end)

  it('takes a last expression behind statements, in a cell', function()
    local function values(text)
      local parsed = parse.compile(text, '=cell', true)
      if parsed.kind ~= 'expression' then return parsed.kind end
      setfenv(parsed.chunk, setmetatable({}, { __index = _G }))
      return select(2, parsed.chunk())
    end
    assert.equal(3, values 'local x = 1\nx + 2')
    assert.equal(3, values 'x = 1\n\nx + 2\n\n-- that is it\n')
    assert.equal(3, values 'local x = 1\n(x +\n2)')
    assert.equal(9, values 'function f(x)\n  return x\nend\nf(\n  9\n)')
    assert.equal('s', values "x = 1\n's'")
    -- what goes on with the line before is no expression of its own
    assert.equal('error', values 'x = f\n(1)')
    for _, text in ipairs { 'x = 3\n-1', "x = f\n'a'", 'x = f\n{}', 'x =\n3',
        'x = 1 +\nf', 'for i = 1, 3 do\nf()\nend', 's = [[\nx\n]]', 'x = 1\n--[[\ny\n]]',
        'do return end\nlocal x', 'x = 1' } do
      local chunk = loadstring(text) and 'statement' or 'incomplete'
      assert.equal(chunk, values(text), text)
    end
    assert.equal('error', values 'x = 1\n= 3')
    assert.equal('incomplete', values 'x = 1\nf(')
    assert.equal('incomplete', parse.compile('local x = 1\nx', '=[1]').kind) -- at the prompt
    assert.equal(0, select('#', values 'do return end\nx'))
    -- an error is at the line where it was typed
    local _, message = pcall(parse.compile('local x = 1\n\nx.y.z', '=cell', true).chunk)
    assert.matches('^cell:3: ', message)
  end)
end)
