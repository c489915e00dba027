-- SPDX-License-Identifier: MIT
-- The language of filters: the same value from SQL and from Lua, and nothing that is not in it.

local expression = require 'ridge.store.expression'
local folders = dofile 'tests/lua/store/folder.lua'
local sqlite = require 'ridge.store.sqlite'

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return e.message
end

describe('an expression', function()
  local ROW = { batch = 64, width = 128, kind = 'linear', fwd_gflops = 2.5 }

  local function value(text) return expression.evaluate(expression.parse(text), ROW) end

  it('has the precedence of Lua', function()
    assert.equal(14, value '2 + 3 * 4')
    assert.equal(512, value '2 ^ 3 ^ 2')
    assert.equal(3, value '8 - 3 - 2') -- the others bind to their left
    assert.equal(2, value '12 / 3 / 2')
    assert.equal(-4, value '-2 ^ 2')
    assert.equal(20, value '(2 + 3) * 4')
    assert.is_true(value 'not 1 = 2')
    assert.is_true(value '1 = 2 or 2 = 2 and 3 = 3')
    assert.equal(8192, value 'batch*width')
    assert.equal(7, value 'log2(width)')
    assert.equal(64, value 'min(batch, width)')
  end)

  it('reads names, dots, strings and numbers', function()
    assert.is_true(value "kind = 'linear'")
    assert.is_true(value 'kind == "linear" and kind != \'conv\' and kind ~= "x" and kind <> "y"')
    assert.equal(2.5, value 'fwd.gflops')
    assert.equal(1500, value '1.5e3')
    assert.equal(0.5, value '.5')
  end)

  it('reads times with their units as nanoseconds', function()
    for text, ns in pairs { ['3ns'] = 3, ['2us'] = 2e3, ['1.5ms'] = 1.5e6, ['.25s'] = 2.5e8,
        ['1e3us + 1'] = 1e6 + 1, ['us * 2'] = 14 } do
      assert.equal(ns, expression.evaluate(expression.parse(text), { us = 7 }), text)
    end
  end)

  it('makes comparisons with what is absent false, and sums absent', function()
    assert.is_false(value 'rank < 3')
    assert.is_nil(value 'rank + 3')
    assert.is_false(value 'kind < 3')
  end)

  it('means the same in SQL', function()
    local folder = folders.new()
    local db = sqlite.open(folder .. '/e.db', 'write')
    db:exec('CREATE TABLE t(batch INT, width INT, kind TEXT, fwd_gflops REAL, rank INT)')
    db:insert('t', ROW)
    for _, text in ipairs { '2 + 3 * 4', '2 ^ 3 ^ 2', '-2 ^ 2', 'batch * width <= 2^13',
      "kind = 'linear' and not batch > 64", 'rank < 3', 'rank + 3', 'batch / width', '1 / 2',
      'log2(width)', 'abs(-3)', 'max(batch, width)', "kind = 'it''s'" } do
      local ok, tree = pcall(expression.parse, text)
      if ok then
        local sql, values = expression.sql(tree)
        local from_sql = db:value('SELECT ' .. sql .. ' FROM t', unpack(values))
        local from_lua = expression.evaluate(tree, ROW)
        if type(from_lua) == 'boolean' then
          from_lua, from_sql = from_lua, from_sql ~= nil and from_sql ~= 0
        end
        assert.equal(from_lua, from_sql, text)
      end
    end
    db:close()
    folders.remove(folder)
  end)

  it('takes true and false for the numbers they are in SQL', function()
    local function of(text) return expression.evaluate(expression.parse(text), { b = true }) end
    assert.is_true(of 'b = 1' and of 'b = true' and of 'b > false' and not of 'b < 1')
    assert.equal(3, of 'b + 2')
  end)

  it('says where text stands for a number, and a number for text', function()
    local kinds = { dtype = 'text', width = 'a number', name = 'text' }
    local function check(text)
      return expression.check_kinds(expression.parse(text), kinds, true)
    end
    for text, words in pairs {
      ['dtype > 3'] = 'dtype is text and 3 is a number: they cannot be compared',
      ['width = "64"'] = "width is a number and '64' is text; a number stands without quotes: they",
      ['3 ~= dtype'] = '3 is a number and dtype is text',
      ['width > 3 and dtype = 1'] = 'dtype is text and 1', ['dtype = true'] = 'cannot be compared',
      ['width = dtype'] = 'width is a number and dtype is text',
      ['dtype * 2 > 3'] = "dtype is text, and '*' is of numbers",
      ['-dtype = 1'] = "'-' is of numbers", ['not dtype'] = "'not' is of numbers",
      ['width > 1 or dtype'] = "dtype is text, and 'or' is of numbers",
      ['max(width, dtype) > 1'] = "'max' is of numbers", ['dtype'] = 'dtype is text, and no cond',
      ['width + 1 = "x"'] = "the other side is a number and 'x' is text",
    } do
      local why = failure(check, text)
      assert.truthy(why:find(words, 1, true), text .. ': ' .. why)
    end
    for _, text in ipairs { 'dtype = "f32"', 'width > 3 and dtype ~= name', 'unknown > 3',
      'unknown = "x"', 'width = true', 'not width > 3', 'min(width, 3) = log2(width)', 'width',
      'dtype < "g"' } do
      check(text)
    end
    assert.same({ 'text', 'a number', 'a number' }, { expression.kind { string = true },
      expression.kind { number = true }, expression.kind { boolean = true } })
    assert.is_nil(expression.kind { string = true, number = true })
    assert.is_nil(expression.kind {})
  end)

  it('can be neither SQL nor Lua', function()
    for _, text in ipairs { "1; DROP TABLE trial", 'os.execute("x")', "(SELECT 1)",
      'x[1]', "'a' || 'b'", 'load_extension(1)', 'a b', '', '(', '1 +', "'open" } do
      assert.is_string(failure(expression.parse, text), text)
    end
    local sql, values = expression.sql(expression.parse "kind = '\"); DROP TABLE t; --'")
    assert.equal('("kind" = ?)', sql)
    assert.same({ '"); DROP TABLE t; --' }, values)
    failure(expression.parse, ('('):rep(10000))
  end)

  it('says where it is wrong, and the near miss', function()
    assert.matches("at character 4 of '1 %+'", failure(expression.parse, '1 +'))
    assert.matches("did you mean 'log2'", failure(expression.parse, 'log(3)'))
    assert.matches("did you mean 'width'", failure(function()
      expression.check(expression.parse 'widht > 3', { width = true }, 'the sweep')
    end))
  end)

  it('has a sentence for what is too long or too deep, in Lua and in SQL', function()
    local ok, err = pcall(expression.parse, ('a + '):rep(20000) .. '1 > 0')
    assert.is_false(ok)
    assert.matches('^more than 5000 operations in a row at character', err.message)
    assert.is_true(expression.holds(expression.parse(('a = 2 or '):rep(4000) .. 'a = 1'),
      { a = 1 }))
    local folder = folders.new()
    local db = sqlite.open(folder .. '/e.db', 'write')
    db:exec 'CREATE TABLE t(a)'
    for _, text in ipairs { ('a+('):rep(40) .. '1' .. (')'):rep(40), ('a + '):rep(600) .. '1',
        ('max(a, '):rep(60) .. '1' .. (')'):rep(60), ('not '):rep(90) .. 'a' } do
      local sql, values = expression.sql(expression.parse(text))
      ok, err = pcall(db.query, db, 'SELECT a FROM t WHERE ' .. sql, unpack(values))
      assert.is_false(ok)
      assert.matches('^the question has more operations or brackets', err.message)
    end
    db:close()
    folders.remove(folder)
  end)
end)
