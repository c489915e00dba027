-- SPDX-License-Identifier: MIT
-- Canonical JSON: one text for equal values, whatever the order or the form they came in.

local canonical = require 'ridge.store.canonical'

describe('canonical JSON', function()
  it('does not depend on the order in which a table was filled', function()
    local a, b = {}, {}
    for i = 1, 50 do a['k' .. i] = i end
    for i = 50, 1, -1 do b['k' .. i] = i end
    assert.equal(canonical.encode(a), canonical.encode(b))
    assert.equal(canonical.hash(a), canonical.hash(b))
    assert.equal('{"a":2,"b":1}', canonical.encode { b = 1, a = 2 })
  end)

  it('writes integers without a fraction and floats as short as they read back', function()
    assert.equal('128', canonical.number(128.0))
    assert.equal('0', canonical.number(-0.0))
    assert.equal('-3', canonical.number(-3))
    assert.equal('9007199254740991', canonical.number(2 ^ 53 - 1))
    assert.equal('0.1', canonical.number(0.1))
    assert.equal('0.30000000000000004', canonical.number(0.1 + 0.2))
    assert.equal('1e-7', canonical.number(1e-7))
    assert.equal('1e300', canonical.number(1e300))
  end)

  it('has the fewest digits that read back, those of subnormals too', function()
    local function fewest(x)
      if x == math.floor(x) and math.abs(x) < 2 ^ 53 then return ('%.0f'):format(x) end
      for digits = 1, 17 do
        local text = ('%.' .. digits .. 'g'):format(x)
        if tonumber(text) == x then return (text:gsub('e%+?(%-?)0*(%d)', 'e%1%2')) end
      end
    end
    local list = { 5e-324, 4.9e-322, 2 ^ -1022, 2 ^ -1022 - 2 ^ -1074, 1.7976931348623157e308, 1e22,
      1e23, 1 / 3, 1e15 + 0.5, 2 ^ 53, 2 ^ 53 + 2, -1.5e-300, 2.5e-5 }
    math.randomseed(7)
    for _ = 1, 500 do
      local x = (math.random() + 0.1) * 10 ^ math.random(-322, 307)
      list[#list + 1] = x
      list[#list + 1] = tonumber(('%.' .. math.random(1, 17) .. 'g'):format(x))
      list[#list + 1] = (math.random(1, 2 ^ 31) * 2 + 1) / 2 ^ math.random(1, 30)
    end
    for _, x in ipairs(list) do assert.equal(fewest(x), canonical.number(x)) end
  end)

  it('reads every number back exactly', function()
    local state = 12345
    for _ = 1, 5000 do
      state = (state * 16807) % 2147483647
      local x = (state / 2147483647 - 0.5) * 10 ^ (state % 600 - 300)
      assert.equal(x, canonical.decode(canonical.number(x)))
    end
  end)

  it('refuses what has no text', function()
    for _, bad in ipairs { 0 / 0, 1 / 0, -1 / 0, print, '\255', { [1.5] = 1 }, { 1, nil, 3 } } do
      assert.has_error(function() canonical.encode { x = bad } end)
    end
    local loop = {}
    loop.loop = loop
    assert.has_error(function() canonical.encode(loop) end)
  end)

  it('tells a list from an object, also when empty', function()
    assert.equal('[]', canonical.encode(canonical.list {}))
    assert.equal('{}', canonical.encode {})
    assert.equal('[1,[2],{"a":true}]', canonical.encode { 1, { 2 }, { a = true } })
  end)

  it('reads back what it wrote', function()
    local value = { text = 'q"\\\n\t\1ü€😀', list = { 1, 2.5, false }, deep = { a = { b = 'c' } } }
    assert.same(value, canonical.decode(canonical.encode(value)))
    assert.equal('é😀\\u0041', canonical.decode [["\u00e9\ud83d\ude00\\u0041"]])
    assert.equal(canonical.null, canonical.decode ' null ')
  end)

  it('refuses what is no JSON', function()
    for _, bad in ipairs { '', '{', '[1,]', '{"a"}', '"abc', '[1 2]', 'nul', '{} x', '"\\x"' } do
      assert.has_error(function() canonical.decode(bad) end)
    end
  end)

  it('hashes the format along with the text', function()
    assert.equal(16, #canonical.hash { a = 1 })
    local sha256 = require 'ridge.store.sha256'
    assert.equal(sha256.digest('{"a":1}\1'):sub(1, 16), canonical.hash { a = 1 })
  end)
end)
