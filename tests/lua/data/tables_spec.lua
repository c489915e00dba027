-- SPDX-License-Identifier: MIT
--- Numbers of CSV files at the ends of each type, in every shape of line; bytes of texts; images.

local ridge = require 'ridge'
local data = ridge.data

local function read_from(text, read)
  local path = os.tmpname()
  local file = assert(io.open(path, 'wb'))
  file:write(text)
  file:close()
  local ok, a, b = pcall(read, path)
  os.remove(path)
  if not ok then return nil, (a.message:gsub(path:gsub('%p', '%%%0'), 'FILE')) end
  return a, b
end

local function csv(text, opts)
  return read_from(text, function(path) return data.csv(path, opts) end)
end

-- The numbers of a matrix as text.
local function said(x)
  local lines = {}
  for i, row in ipairs(x:to('f64'):tolist()) do
    local words = {}
    for k, v in ipairs(row) do words[k] = v ~= v and 'nan' or ('%.17g'):format(v) end
    lines[i] = table.concat(words, ' ')
  end
  return x.dtype .. ': ' .. table.concat(lines, '; ')
end

describe('a CSV file', function()
  it('has its longest line named', function()
    local path = os.tmpname()
    finally(function() os.remove(path) end)
    os.execute(("printf 'a,b\\n1,2\\n' >%s && truncate -s 257M %s"):format(path, path)) -- sparse
    local ok, err = pcall(data.csv, path)
    assert.is_false(ok)
    assert.equal(('data.csv: %s line 3 has more than 268435456 bytes'):format(path), err.message)
  end)

  it('holds what a type holds, and one more is an error', function()
    for _, case in ipairs { { 'u8', '0', '255', '-1', '256' }, { 'bool', '0', '1', '2', 'nan' },
        { 'i8', '-128', '127', '-129', '128' },
        { 'i32', '-2147483648', '2147483647', '-2147483649', '2147483648' },
        { 'u8', '7', '7.0', '7.5', 'nan' }, { 'i64', '-5', '9007199254740992', '0.5', 'inf' } } do
      local dtype = case[1]
      local want = ('%s: %s %.17g'):format(dtype, case[2], tonumber(case[3]))
      assert.equal(want, said(csv(case[2] .. ',' .. case[3], { dtype = dtype })))
      for i = 4, 5 do
        local x, message = csv('1\n' .. case[i], { dtype = dtype, header = false })
        assert.is_nil(x)
        assert.equal(('data.csv: FILE line 2, column 1: %s is no %s'):format(case[i], dtype),
          message)
      end
    end
    -- i64 takes all digits
    local x = csv('9223372036854775807,-9223372036854775808,+0012', { dtype = 'i64' })
    assert.equal('i64', x.dtype)
    for _, text in ipairs { '9223372036854775808', '-9223372036854775809' } do
      assert.matches('is no i64', select(2, csv(text, { dtype = 'i64', header = false })))
    end
  end)

  it('is f32 where that holds every whole number', function()
    assert.equal('f32: 16777216 0.10000000149011612', said(csv '16777216,0.1'))
    assert.equal('f32: 16777218', said(csv '16777218')) -- even: held
    assert.matches("16777217 has more digits than f32 holds: dtype = 'i64'", select(2,
      csv '16777217'))
    assert.matches("1e39 is more than f32 holds: dtype = 'f64'", select(2, csv '1e39'))
assert.equal(1e39, csv('1e39', { dtype = 'f64' }):item())
    assert.equal('f32: inf -inf', said(csv('inf,-inf', { header = false })))
  end)

  it('has a header where its first line is words, and not where it is numbers', function()
    for _, case in ipairs { { 'a,b\n1,2', 'f32: 1 2', 'a b' }, { '1,2\n3,4', 'f32: 1 2; 3 4' },
        { 'a\n1', 'f32: 1', 'a' }, { 'a,\n1,2', 'f32: 1 2', 'a ' }, { '\n \n1', 'f32: 1' },
        { '1;2\n3;4', 'f32: 1 2; 3 4', nil, { separator = ';' } },
        { '1\t2', 'f32: 1 2', nil, { separator = '\t' } },
        { '1,2\n3,4', 'f32: 3 4', '1 2', { header = true } },
        { '1,\n,4', 'f32: 1 9; 9 4', nil, { missing = 9 } },
        { '1,\n,4', 'f32: 1 nan; nan 4', nil, { missing = 0 / 0 } },
        { '1,2\n3,', 'f32: 1 2; 3 nan', nil, nil },
        { '"1","2"\r\n3,"4"\r\n', 'f32: 1 2; 3 4' }, { '"a,b","c""d"\n1,2', 'f32: 1 2', 'a,b c"d' },
        { '"a\nb",c\n1,2', 'f32: 1 2', 'a\nb c' }, { ' 1 , 2 ', 'f32: 1 2' } } do
      local x, names = csv(case[1], case[4])
      assert.equal(case[2], x and said(x) or names, case[1])
      assert.equal(case[3], names and table.concat(names, ' '))
    end
  end)

  it('has no empty field where nothing of its type is nan', function()
    for _, dtype in ipairs { 'bool', 'u8', 'i8', 'i32', 'i64' } do
      local x, message = csv('1,\n', { dtype = dtype })
      assert.is_nil(x)
      assert.matches('line 1, column 2: an empty field is nan, which ' .. dtype .. ' has not',
        message)
      assert.equal(dtype .. ': 1 0', said(csv('1,\n', { dtype = dtype, missing = 0 })))
    end
  end)

  it('whose lines end in a carriage return alone, or in two, is told', function()
    for _, text in ipairs { 'a,b\r1,2\r3,4\r', 'a,b\r\r\n1,2\r\r\n', '1,2\r3,4\n' } do
      local x, message = csv(text)
      assert.is_nil(x)
      assert.matches('line 1 has a carriage return in it: lines end in \\n or \\r\\n', message)
    end
    assert.equal('f32: 1 2; 3 4', said(csv('1,2\r\n3,4\r\n')))
    assert.equal('f32: 1', said(csv('"a\rb"\n1\n', { header = true })))
  end)

  it('or a text that was packed and cut is refused, also behind a whole line', function()
    local path = os.tmpname()
    local file = assert(io.open(path, 'wb'))
    for i = 1, 50000 do file:write(i % 7, ',', i % 11, '\n') end
    file:close()
    local size = io.popen(('gzip -nf %s && stat -c %%s %s.gz'):format(path, path)):read '*n'
    local function read(n)
      os.execute(('head -c %d %s.gz > %s'):format(n, path, path))
      local seen = {}
      for i, reader in ipairs { data.csv, data.text } do
        local ok, found = pcall(reader, path)
        seen[i] = ok and 'read' or found.message:match 'is cut off' or found.message
      end
      return seen
    end
    for _, n in ipairs { size - 1, size - 4, size - 8, math.floor(size / 2), 20 } do
      assert.same({ 'is cut off', 'is cut off' }, read(n), n)
    end
    assert.same({ 'read', 'read' }, read(size))
    os.remove(path)
    os.remove(path .. '.gz')
  end)

  -- Numbers behind the first row are read all at once, where a line has nothing else.
  it('has the numbers that Lua reads, however they are written', function()
    math.randomseed(7)
    local function pick(list) return list[math.random(#list)] end
    local function digits(n)
      local list = {}
      for i = 1, n do list[i] = math.random(0, 9) end
      return table.concat(list)
    end
    local function number()
      local sign, blank = pick { '', '', '', '-', '+' }, pick { '', '', '', ' ', '\t ' }
      local text = pick { digits(math.random(1, 17)), digits(math.random(0, 9)) .. '.'
        .. digits(math.random(1, 12)), digits(math.random(1, 4)) .. '.',
        '0.000' .. digits(math.random(1, 15)), ('0'):rep(20) .. digits(3) }
      if math.random(1, 3) == 1 then
        text = text .. pick { 'e', 'E' } .. pick { '', '-', '+' } .. math.random(0, 40)
      end
      return blank .. sign .. text .. blank
    end
    for _, separator in ipairs { ',', ';', '\t', ' ', '|', 'x' } do
      local lines, wanted = { '0' .. separator .. '0' }, { '0 0' }
      for i = 2, 400 do
        local fields, values = {}, {}
        for k = 1, 2 do
          fields[k] = number()
          if separator:find '%s' then fields[k] = fields[k]:match '%S+' end
          values[k] = ('%.17g'):format(tonumber(fields[k]:match '%S+'))
        end
        lines[i], wanted[i] = table.concat(fields, separator), table.concat(values, ' ')
      end
      local text = table.concat(lines, pick { '\n', '\r\n' }) .. '\n'
      assert.equal('f64: ' .. table.concat(wanted, '; '),
        said(csv(text, { dtype = 'f64', separator = separator, header = false })))
    end
  end)

  it('is read by lines where they are plain numbers, and only there', function()
    local ffi, C = require 'ffi', require 'ridge.ffi.lib'
    local out, inf = ffi.new 'double[4]', math.huge
    local function count(line, changes)
      local how = { least = -inf, greatest = inf, largest = inf, largest_whole = inf,
        separator = 44 }
      for key, v in pairs(changes or {}) do how[key] = v end
      out[3] = 77
      local n = C.rg_decimals(line, #line, ffi.new('rg_decimal', how), out, 3)
      assert.equal(77, out[3])
      return n
    end
    for line, n in pairs { ['1'] = 1, ['1,2.5'] = 2, [' 1 , -.5e3,\t7.'] = 3, ['-0'] = 1,
        ['123456789012345'] = 1, ['000000000000000000001'] = 1, ['1e22,1e-22'] = 2 } do
      assert.equal(n, count(line), line)
    end
    for _, line in ipairs { '', ' ', ',', '1,', ',1', '1,,2', '1,2,3,4', '.', '-', '+', 'e5', '1e',
        '1e+', '1.2.3', '1 2', '--1', '0x10', 'nan', 'inf', '"1"', '1\0', '1,2\r', '1e23', '1e-23',
        '1234567890123456', '0.1234567890123456', '1e99999999999', '1,2x' } do
      assert.is_true(count(line) < 0, line)
    end
    assert.is_true(count '-0' == 1 and 1 / out[0] == -inf)
    for changes, lines in pairs { [{ whole = 1, least = 0, greatest = 255 }] =
        { '0,255,2.55e2', '256', '-1', '1.5' }, [{ largest_whole = 2 ^ 24, largest = 3.4e38 }] =
        { '-16777216,1e18,3e22', '16777217', '-16777217' } } do
      assert.equal(3, count(lines[1], changes))
      for i = 2, #lines do assert.is_true(count(lines[i], changes) < 0, lines[i]) end
    end
  end)

  it('whose numbers do not fit into memory is refused before they are taken', function()
    local path = os.tmpname()
    finally(function() os.remove(path) end)
    local file = assert(io.open(path, 'wb'))
    local lines = ('1,2\n'):rep(2 ^ 16)
    for _ = 1, 33 do file:write(lines) end
    file:close()
    assert.equal(2 * 33 * 2 ^ 16, data.csv(path).count)
    os.execute('truncate -s 4T ' .. path) -- sparse
    local ok, err = pcall(data.csv, path)
    assert.is_false(ok)
    assert.equal('ENOMEM', err.code)
    assert.matches('has about 2%.2e%+12 numbers, which take 26%d%d%d%.%d GB while they are read; '
      .. '%d+%.%d GB are left%. columns takes some', err.message)
  end)

  it('that is none is told with line and column', function()
    for _, case in ipairs { { 'a,1\n2,3', 'line 1 has words and numbers' },
        { 'a\n', 'has no numbers' }, { '', 'has no numbers' },
        { '1,2\n3', 'line 2 has 1 field, the first has 2' },
        { '1\n2\nx', "line 3, column 1: 'x' is no number" },
        { 'a;b\n1,5;2,3', "line 2 has 3 fields, the first has 1" },
        { 'a;b\n15;23', "line 2, column 1: '15;23' is no number (separator = ';'?)" },
        { 'a\tb\n1\t2', "is no number (separator = '\\t'?)" },
        { 'a|b\n1|2', "column 1: '1|2' is no number (separator = '|'?)" },
        { 'a\n"1\n2', 'line 2 has a quote that is not closed' },
        { '"1"x', 'line 1 has text behind a quoted field' },
        { 'a,b\n"1\n",2\n3', 'line 4 has 1 field, the first has 2' } } do
      local x, message = csv(case[1])
      assert.is_nil(x)
      assert.matches(case[2], message, 1, true)
    end
    for _, sign in ipairs { '', ',,', '1', '"', '\n' } do
      assert.matches('the separator is one sign', select(2, csv('1', { separator = sign })))
    end
    assert.matches("unknown option 'seperator' %(did you mean 'separator'%?%)", select(2, csv('1',
      { seperator = ';' })))
  end)
end)

describe('a text', function()
  it('is the numbers of its bytes, in their order', function()
    local text = read_from('banana\n', data.text)
    assert.same({ 2, 1, 3, 1, 3, 1, 0 }, text.tokens:tolist())
    assert.same({ 10, 97, 98, 110 }, text.letters)
    assert.same({ 1, 3, 1, 2 }, text.counts)
    assert.same({ [10] = 0, [97] = 1, [98] = 2, [110] = 3 }, text.number_of)
    assert.equal('ban\n', text.decode { 2, 1, 3, 0 })
    assert.equal('banana\n', text.decode(text.tokens))
    for _, bad in ipairs { 4, -1, 0.5, 'a' } do
      local ok, err = pcall(text.decode, { 0, bad })
      assert.is_false(ok)
      assert.matches('number 2, .* is no letter; they go from 0 to 3', err.message)
    end
    for _, bad in ipairs { 7, true, {} } do
      local ok, err = pcall(data.text, bad)
      assert.is_false(ok)
      assert.matches('data.text: a path, or a list of them, is expected, got', err.message)
    end
    assert.matches('FILE is empty', select(2, read_from('', data.text)))
    local two = read_from('ab', function(path) return data.text { path, path } end)
    assert.same({ 0, 1, 0, 1 }, two.tokens:tolist())
  end)
end)

describe('the images of CIFAR', function()
  local PIXELS = 3 * 32 * 32

  -- Rows whose labels and pixels say which they are.
  local function rows(labels, first, n)
    local list = {}
    for i = first, first + n - 1 do
      list[#list + 1] = (labels == 2 and string.char(99) or '') .. string.char(i)
        .. string.char(i + 100):rep(PIXELS - 1) .. string.char(200)
    end
    return table.concat(list)
  end

  local function folder(files)
    local path = os.tmpname()
    os.remove(path)
    assert(os.execute('mkdir ' .. path) == 0)
    for name, text in pairs(files) do
      local file = assert(io.open(path .. '/' .. name, 'wb'))
      file:write(text)
      file:close()
    end
    local ok, found = pcall(data.cifar, path)
    os.execute('rm -r ' .. path)
    return ok and found, not ok and found.message
  end

  local function check(set, labels)
    assert.same(labels, set.labels:tolist())
    assert.same({ #labels, 3, 32, 32 }, set.images.shape)
    local last = set.images:reshape(#labels, PIXELS):tolist()
    for i, label in ipairs(labels) do
      assert.same({ label + 100, label + 100, 200 }, { last[i][1], last[i][PIXELS - 1],
        last[i][PIXELS] })
    end
  end

  it('come with their labels, of one file or several, of ten kinds or a hundred', function()
    local sets = folder { ['data_batch_1.bin'] = rows(1, 1, 2),
      ['data_batch_3.bin'] = rows(1, 7, 1), ['test_batch.bin'] = rows(1, 5, 3) }
    check(sets.train, { 1, 2, 7 })
    check(sets.test, { 5, 6, 7 })
    sets = folder { ['train.bin'] = rows(2, 3, 2), ['test.bin'] = rows(2, 9, 1) }
    check(sets.train, { 3, 4 })
    check(sets.test, { 9 })
    assert.matches('there is neither data_batch_1.bin nor train.bin in', select(2, folder {}))
    assert.matches('has 3074 bytes, which is 1.00 images of 3073', select(2, folder {
      ['data_batch_1.bin'] = rows(1, 1, 1) .. 'x' }))
    assert.matches('has 0 bytes, which is 0.00 images', select(2, folder { ['data_batch_5.bin'] = ''
      }))
  end)
end)
