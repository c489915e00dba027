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

  -- By the definition: what the bytes of the shortest form of code points are, surrogates left out.
  it('takes a text that is UTF-8, and no other', function()
    local function bytes_of(code)
      local function tail(by) return 0x80 + math.floor(code / by) % 64 end
      if code < 0x80 then return string.char(code) end
      if code < 0x800 then return string.char(0xC0 + math.floor(code / 64), tail(1)) end
      if code < 0x10000 then
        return string.char(0xE0 + math.floor(code / 4096), tail(64), tail(1))
      end
      return string.char(0xF0 + math.floor(code / 262144), tail(4096), tail(64), tail(1))
    end
    local good = {}
    for code = 0, 0x10FFFF, 1 do
      -- all of the first and last of each row of 64, which hold every boundary
      local place = code % 64
      if (place < 2 or place > 61 or code < 0x100) and not (code >= 0xD800 and code <= 0xDFFF) then
        good[bytes_of(code)] = true
      end
    end
    local function is_taken(text) return (pcall(canonical.encode, text)) end
    for text in pairs(good) do
      if not is_taken(text) then error('refused: ' .. canonical.encode { text:byte(1, -1) }) end
    end
    -- every pair and, of the bytes at which something changes, every three and four
    local edges = { 0x00, 0x7F, 0x80, 0x81, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF,
      0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF }
    local function at_edges(text)
      -- which code point these bytes say, if they are one; else nothing
      local c = text:byte()
      local n = c < 0x80 and 1 or c < 0xC0 and 0 or c < 0xE0 and 2 or c < 0xF0 and 3 or 4
      if n == 0 or #text ~= n then return false end
      local code = n == 1 and c or c % 2 ^ (7 - n)
      for i = 2, n do
        local d = text:byte(i)
        if d < 0x80 or d > 0xBF then return false end
        code = code * 64 + d - 0x80
      end
      return code <= 0x10FFFF and bytes_of(code) == text and not (code >= 0xD800 and code <= 0xDFFF)
    end
    local function whole(text) -- some code points in a row
      if text == '' then return true end
      for n = 1, math.min(4, #text) do
        if at_edges(text:sub(1, n)) then return whole(text:sub(n + 1)) end
      end
      return false
    end
    local function check(text)
      if is_taken(text) ~= whole(text) then
        error(('%s: %s'):format(canonical.encode { text:byte(1, -1) }, tostring(whole(text))))
      end
    end
    for a = 0, 255 do
      check(string.char(a))
      for b = 0, 255 do check(string.char(a, b)) end
    end
    for _, a in ipairs(edges) do
      for _, b in ipairs(edges) do
        for _, c in ipairs(edges) do
          check(string.char(a, b, c))
          local fourth = (a == 0xF0 or a == 0xF1 or a > 0xF3) and edges or {}
          for _, d in ipairs(fourth) do check(string.char(a, b, c, d)) end
        end
      end
    end
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
