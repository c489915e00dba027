-- SPDX-License-Identifier: MIT
local parse = require 'ridge.repl.parse'

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
