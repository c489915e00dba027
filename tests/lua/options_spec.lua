-- SPDX-License-Identifier: MIT
local options = require 'ridge.options'
local blame = require 'ridge.blame'

local SPEC = {
  stride = { 'integer', default = 1, min = 1 },
  mode = { 'string', choices = { 'fast', 'slow' } },
  size = { 'number|table' },
  needed = { 'boolean', required = true, doc = 'is it' },
}

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok)
  return e
end

describe('options', function()
  it('fills in defaults and leaves the given table alone', function()
    local given = { needed = true }
    local got = options.check(SPEC, given, 'conv')
    assert.equal(1, got.stride)
    assert.is_nil(given.stride)
  end)

  it('are a table of their own where nothing is given, too: every kind of default', function()
    local list = { 1, 2 }
    local spec = { on = { 'boolean', default = true }, off = { 'boolean', default = false },
      rate = { 'number', default = 0.1 }, least = { 'number', default = -math.huge },
      ['two words'] = { 'string', default = 'a "b"\n' }, list = { 'table', default = list },
      none = { 'any' } }
    local want = { on = true, off = false, rate = 0.1, least = -math.huge,
      ['two words'] = 'a "b"\n', list = list }
    local first = options.check(spec, nil, 'f')
    assert.same(want, first)
    assert.equal(list, first.list)
    assert.same(want, options.check(spec, {}, 'f'))
    first.on, first.more = nil, 1
    assert.same(want, options.check(spec, nil, 'f'))
    assert.same({}, options.check({}, nil, 'f'))
    for _ = 1, 2 do
      assert.matches('option needed is missing: is it',
        failure(options.check, SPEC, nil, 'conv').message)
    end
  end)

  it('names an unknown key, the near miss and the known ones', function()
    local e = failure(options.check, SPEC, { strid = 2, needed = true }, 'conv')
    assert.matches("unknown option 'strid'", e.message)
    assert.matches("did you mean 'stride'", e.message)
    assert.matches('known: mode, needed, size, stride', e.message)
  end)

  it('are a table, which NULL is not, though it equals nil', function()
    for _, given in ipairs { require('ffi').new 'void *', 3, 'x' } do
      assert.matches('options are a table', failure(options.check, SPEC, given, 'conv').message)
    end
  end)

  it('laid over others are a table or nil, and the last ones count', function()
    assert.same({ a = 1, b = 3, c = 4 }, options.over({ a = 1, b = 2 }, { b = 3, c = 4 }, 'plot'))
    assert.same({ a = 1 }, options.over({ a = 1 }, nil, 'plot'))
    for _, given in ipairs { require('ffi').new 'void *', 3, 'x' } do
      assert.matches('plot: options are a table', failure(options.over, {}, given, 'plot').message)
    end
  end)

  it('refuses a wrong type, choice or range, nan, and what is missing', function()
    assert.matches('expected integer', failure(options.check, SPEC,
      { stride = 1.5, needed = true }, 'conv').message)
    assert.matches('one of fast, slow', failure(options.check, SPEC,
      { mode = 'quick', needed = true }, 'conv').message)
    assert.matches('between 1 and inf', failure(options.check, SPEC,
      { stride = 0, needed = true }, 'conv').message)
    assert.equal('conv: option size is nan; it is a number', failure(options.check, SPEC,
      { size = 0 / 0, needed = true }, 'conv').message)
    assert.equal('conv: option needed is missing: is it',
      failure(options.check, SPEC, {}, 'conv').message)
    assert.matches('options are a table', failure(options.check, SPEC, 7, 'conv').message)
  end)
end)

describe('blame', function()
  it('points at the line of the caller outside ridge', function()
    local line
    local ok, e = pcall(function()
      line = debug.getinfo(1, 'l').currentline + 1
      options.check(SPEC, { bad = 1 }, 'conv')
    end)
    assert.is_false(ok)
    assert.is_true(blame.is_error(e))
    assert.matches('options_spec%.lua:' .. line .. '$', e.where)
    assert.equal('EARG', e.code)
    assert.matches('^.-:%d+: conv: unknown option', tostring(e))
  end)
end)

describe('a name that the core keeps', function()
  local ridge = require 'ridge'

  it('has no byte 0, behind which it would be lost', function()
    local Net = ridge.nn.class 'Net'
    function Net:init(name) self:child(name, ridge.nn.ReLU()) end
    local function profiled(f) return function() ridge.profile(f, { rows = 1 }) end end
    for what, f in pairs {
      ['memory.tag'] = function() ridge.memory.tag('a\0b', print) end,
      ['nn.class'] = function() ridge.nn.class 'a\0b' end,
      ['Net: child'] = function() Net 'a\0b' end,
      ['profile.range'] = function() ridge.profile_range('a\0b', print) end,
      ['profile:start'] = profiled(function(p) p:start 'a\0b' end),
      ['profile:section'] = profiled(function(p) p:section('a\0b', print) end),
    } do
      local e = failure(f)
      assert.equal('EARG', e.code, what)
      assert.equal(what .. ': a name has no byte 0, got ' .. blame.show 'a\0b', e.message)
      assert.matches('options_spec%.lua', e.where)
    end
    assert.equal('nn.ReLU', getmetatable(Net('a').children[1].module).__name)
  end)
end)
