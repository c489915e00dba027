-- SPDX-License-Identifier: MIT
local colour = require 'ridge.show.colour'
local show = require 'ridge.show'

local function tensor(dtype, shape, values, width)
  return show.tensor {
    dtype = dtype, shape = shape, width = width or 80, bytes = 4 * #values,
    get = function(i) return values[i + 1] end,
  }
end

local function numbers(n, f)
  local list = {}
  for i = 1, n do list[i] = f(i) end
  return list
end

local function lines(text)
  local list = {}
  for line in (text .. '\n'):gmatch '(.-)\n' do list[#list + 1] = line end
  return list
end

describe('a tensor as text', function()
  it('has one format for all its numbers', function()
    local text = tensor('f32', { 2, 2 }, { 0.5, -12.25, 3, 0.00001 })
    assert.same({ '    0.5000  -12.2500', '    3.0000    0.0000', 'tensor f32[2,2] cpu  16 B' },
      lines(text))
  end)

  it('is scientific by its largest magnitude only', function()
    assert.truthy(tensor('f32', { 2 }, { 1e-7, 1.5 }):find('0.0000  1.5000', 1, true))
    assert.truthy(tensor('f32', { 2 }, { 1e-7, 123456.5 }):find '1.0000e%-07  1.2346e%+05')
    assert.truthy(tensor('f32', { 2 }, { 1e-7, 9e-4 }):find '1.0000e%-07  9.0000e%-04')
    assert.truthy(tensor('f32', { 1 }, { 1e-3 }):find('0.0010', 1, true))
  end)

  it('writes integers without a dot and whole floats with one', function()
    assert.equal('   1  20', lines(tensor('i64', { 2 }, { 1, 20 }))[1])
    assert.truthy(tensor('i64', { 2 }, { 100000, 20 }):find '100000 +20\n')
    assert.truthy(tensor('f32', { 2 }, { 1, 20 }):find ' 1%. +20%.\n')
  end)

  it('shows the sign of a zero', function()
    assert.equal('  -0.   0.   2.', lines(tensor('f32', { 3 }, { -0.0, 0, 2 }))[1])
    assert.equal('  -0.0000   0.5000', lines(tensor('f32', { 2 }, { -0.0, 0.5 }))[1])
    assert.equal('  0  1', lines(tensor('i64', { 2 }, { 0, 1 }))[1])
  end)

  it('keeps every digit of large integers', function()
    assert.truthy(tensor('i64', { 1 }, { 9007199254740993LL }):find('9007199254740993', 1, true))
    -- a tensor's own, few and many, and of a view
    local odd = require('ridge').zeros(2, 3, { dtype = 'i64' }) + 2 ^ 53 + 1
    assert.truthy(tostring(odd):find('9007199254740993  9007199254740993', 1, true))
    odd = odd:t():reshape(1, 6):expand(2 ^ 18, 6)
    assert.truthy(tostring(odd):find('9007199254740993', 1, true))
    assert.is_nil(tostring(odd):find('9007199254740992', 1, true))
  end)

  it('shows nan and inf, and counts them', function()
    local values = numbers(20, function(i) return i end)
    values[3], values[4], values[5] = 0 / 0, 1 / 0, -1 / 0
    local text = tensor('f32', { 20 }, values)
    assert.truthy(text:find 'nan +inf +%-inf')
    assert.truthy(text:find('1 nan   2 inf', 1, true))
    colour.enabled = true
    local painted = tensor('f32', { 2 }, { 0 / 0, 1 })
    colour.enabled = false
    assert.truthy(painted:find('\27[31m', 1, true))
  end)

  it('shows three at each edge above 1000 elements', function()
    local all = tensor('f32', { 10, 100 }, numbers(1000, function(i) return i end), 10000)
    assert.is_nil(all:find('...', 1, true))
    local text = lines(tensor('f32', { 7, 143 }, numbers(1001, function(i) return i end)))
    assert.equal(8, #text) -- three rows, dots, three rows, the footer
    assert.truthy(text[1]:find '1%.%s+2%.%s+3%.%s+%.%.%.%s+141%.%s+142%.%s+143%.')
    assert.equal('   ...', text[4])
  end)

  it('reads only what it shows of a huge tensor, and samples the rest', function()
    local reads = 0
    show.tensor {
      dtype = 'f32', shape = { 30000, 30000 }, width = 80,
      get = function() reads = reads + 1 return 1 end,
    }
    assert.is_true(reads < 5e6)
  end)

  it('tells ends of 100000 and more, and below a thousandth, in powers of ten', function()
    for value, word in pairs { [99999] = '1e+05', [100000] = '1.00e+05', [-100000] = '-1.00e+05',
      [2 ^ -10] = '9.77e-04', [2 ^ -9] = '0.001953', [0] = '0' } do
      local text = tensor('f64', { 20 }, numbers(20, function() return value end))
      assert.equal(word, text:match ' std [^ ]+   all (%S+)\n*$')
    end
  end)

  it('has the first of those that are the least, and of those that are the greatest', function()
    local stats = require('ridge.show.summary').stats
    for _, sign in ipairs { 1, -1 } do -- 0 and -0 are equal
      local values = { 0 * sign, 0 * -sign }
      local found = stats(function(i) return values[i + 1] end, 2)
      assert.equal(sign * math.huge, 1 / found.min)
      assert.equal(sign * math.huge, 1 / found.max)
    end
  end)

  it('counts values at both ends of the range of doubles', function()
    local stats = require('ridge.show.summary').stats
    for _, unit in ipairs { 2 ^ -1074, 2 ^ -1060, 1e-200, 1e200, 2 ^ 1021 } do
      local found = stats(function(i) return (i % 4 - 1) * unit end, 40) -- -1, 0, 1, 2
      assert.equal(-unit, found.min)
      assert.equal(2 * unit, found.max)
      assert.is_true(math.abs(found.mean / unit - 0.5) <= 0.5) -- a denormal is rounded to one
      assert.is_true(unit < 1e-300 or math.abs(found.mean / unit - 0.5) < 1e-12)
      assert.is_true(unit < 2 ^ -1070 or math.abs(found.std / unit - math.sqrt(50 / 39)) < 1e-3)
      local counted = 0
      for _, n in ipairs(found.histogram) do counted = counted + n end
      assert.equal(40, counted)
    end
  end)

  it('has bins that hold what lies in them, and counts of all where it reads some', function()
    local stats = require('ridge.show.summary').stats
    local found = stats(function(i) return i end, 48)
    for k = 1, 24 do assert.equal(2, found.histogram[k], k) end
    found = stats(function(i) return i % 2 end, 10)
    assert.same({ 5, 5 }, { found.histogram[1], found.histogram[24] })
    local n = 3 * 2 ^ 20
    found = stats(function(i) return i >= n / 2 and 0 / 0 or 1 end, n)
    assert.is_true(found.sampled)
    assert.near(n / 2, found.nan, 8)
    assert.equal(0, found.inf)
  end)

  it('drops middle columns that do not fit', function()
    local text = lines(tensor('f32', { 2, 60 }, numbers(120, function(i) return i / 7 end), 60))
    assert.is_true(#text[1] <= 60)
    assert.truthy(text[1]:find('...', 1, true))
    assert.truthy(text[2]:find '17%.1429$')
  end)

  it('numbers the lines of a long vector from 1', function()
    local text = lines(tensor('f32', { 30 }, numbers(30, function(i) return i + 0.5 end), 60))
    assert.truthy(text[1]:find '^%s*%[1%]')
    assert.truthy(text[2]:find '^%s*%[%d+%]')
    for _, line in ipairs(text) do assert.is_true(colour.width(line) <= 90) end
  end)

  it('labels the matrices of more axes from 1', function()
    local text = tensor('i32', { 2, 2, 2 }, { 1, 2, 3, 4, 5, 6, 7, 8 })
    assert.truthy(text:find('[1, :, :]\n  1  2\n  3  4\n[2, :, :]\n  5  6\n  7  8\n', 1, true))
  end)

  it('leaves out matrices in the middle, no row of the others', function()
    local text = lines(tensor('i32', { 8, 12, 12 }, numbers(1152, function(i) return i end)))
    local found = 0
    for i, line in ipairs(text) do
      if line == ' ...' then
        found = found + 1
        assert.truthy(text[i - 1]:find '430 +431 +432$')
        assert.truthy(text[i + 1]:find('[6, :, :]', 1, true))
      end
    end
    assert.equal(1, found)
  end)

  it('shows scalars, booleans and nothing', function()
    assert.equal('  2.5000\ntensor f32[] cpu  4 B', tensor('f32', {}, { 2.5 }))
    assert.truthy(tensor('bool', { 2 }, { true, false }):find('true  false', 1, true))
    assert.truthy(tensor('bool', { 2 }, { 1, 0 }):find('true  false', 1, true))
    assert.equal('  (empty)\ntensor f32[0,3] cpu  0 B', tensor('f32', { 0, 3 }, {}))
  end)

  it('says in the footer how the values are spread', function()
    local text = lines(tensor('f32', { 5, 8 }, numbers(40, function(i) return i end)))
    assert.truthy(text[#text]:find('mean 20.5000 std 11.6905', 1, true))
    assert.truthy(text[#text]:find '   1 .+ 40$')
    local flat = lines(tensor('f32', { 40 }, numbers(40, function() return 7 end)))
    assert.truthy(flat[#flat]:find('all 7', 1, true))
    local bool = lines(tensor('bool', { 10 }, numbers(10, function(i) return i <= 4 end)))
    assert.truthy(bool[#bool]:find('true 40.0 %', 1, true))
  end)

  it('keeps a small spread around a large mean', function()
    local values = numbers(40, function(i) return 1e8 + i % 2 end)
    local summary = require('ridge.show.summary')
    local stats = summary.stats(function(i) return values[i + 1] end, 40)
    assert.is_true(math.abs(stats.std - 0.5063697) < 1e-6)
  end)
end)

describe('columns', function()
  it('stand to the left, and to the right where they hold numbers or are told to', function()
    local text = require('ridge.show.columns').text
    assert.equal('a    b   c\nx   10  pq\nyz   9   r',
      (text({ 'a', 'b', 'c' }, { { 'x', 10, 'pq' }, { 'yz', 9, 'r' } },
        { width = 80, right = { [3] = true } })))
    assert.equal('a   b\nx   pq\nyz  r', (text({ 'a', 'b' }, { { 'x', 'pq' }, { 'yz', 'r' } },
      { width = 80, right = { [2] = false } })))
  end)
end)

describe('a chart', function()
  it('thins values to the means of finite neighbours', function()
    local thin = require('ridge.show.chart').thin
    assert.same({ 2, 7, 5 }, thin({ 1, 3, 0 / 0, 7, 4, 6 }, 3))
    local none = thin({ 1, 1, 1 / 0, 0 / 0 }, 2)
    assert.equal(1, none[1])
    assert.is_true(none[2] ~= none[2])
  end)

  it('draws 8 rows of eighths, the smallest value as one', function()
    -- 64 eighths; 4.5 of 0 .. 9 stands at 63 / 2 = 31.5 above the first: 33, 4 rows and an eighth
    assert.equal(table.concat({ '9   █', '    █', '    █', '   ▁█', '   ██', '   ██', '   ██',
      '0 ▁██' }, '\n'), require('ridge.show.chart').line({ 0, 4.5, 9 }, 40))
    -- the same, wherever zero lies
    for _, low in ipairs { -9, -4, 5 } do
      local picture = require('ridge.show.chart').line({ low, low + 4.5, low + 9 }, 40)
      local bars = (picture:gsub('[%d.-]', ''):gsub('\n +', '\n'):gsub('^ +', ''))
      assert.equal('█\n█\n█\n▁█\n██\n██\n██\n▁██', bars)
    end
    -- 8 eighths fill the last row and leave nothing for the one above
    assert.equal('63   █\n' .. ('     █\n'):rep(6) .. ' 0 ▁██',
      require('ridge.show.chart').line({ 0, 7, 63 }, 40))
  end)
end)
