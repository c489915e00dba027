-- SPDX-License-Identifier: MIT
-- Files of numbers: whole ones, every way of cutting them off, and what is said about it.
local ridge = require 'ridge'
local ffi = require 'ffi'
local folders = dofile 'tests/lua/store/folder.lua'

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

describe('a file', function()
  local folder, path

  before_each(function()
    folder = folders.new()
    path = folder .. '/x'
  end)
  after_each(function() folders.remove(folder) end)

  local function write(text, name)
    local file = assert(io.open(name and folder .. '/' .. name or path, 'wb'))
    file:write(text)
    file:close()
  end

  local function bytes(list, kind)
    return ffi.string(ffi.new(kind .. '[?]', #list, list), #list * ffi.sizeof(kind))
  end

  -- Cut off at every byte it is an error, never a crash and never a tensor.
  local function cut_everywhere(text, read)
    for n = 0, #text - 1 do
      write(text:sub(1, n))
      assert.is_false((pcall(read, path)), 'cut at ' .. n)
    end
    write(text .. 'x')
    assert.is_false((pcall(read, path)))
  end

  -- Any byte changed: an answer or an error, never a crash.
  local function change_everywhere(text, read)
    for i = 1, #text do
      for _, byte in ipairs { 0, 39, 127, 255 } do
        write(text:sub(1, i - 1) .. string.char(byte) .. text:sub(i + 1))
        pcall(read, path)
      end
    end
  end

  describe('of NumPy', function()
    local function npy(descr, shape, elements, fortran)
      local head = ("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }"):format(descr,
        fortran and 'True' or 'False', shape)
      head = head .. (' '):rep(64 - (10 + #head + 1) % 64) .. '\n'
      return '\147NUMPY\1\0' .. string.char(#head % 256, math.floor(#head / 256)) .. head
        .. elements
    end

    it('is a tensor of its type', function()
      write(npy('<f4', '(2, 3)', bytes({ 1, 2, 3, 4, 5, 6 }, 'float')))
      local x = ridge.data.npy(path)
      assert.are.equal('f32', x.dtype)
      assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, x:tolist())
      write(npy('<i8', '(3,)', bytes({ -1, 0, 7 }, 'int64_t')))
      assert.same({ -1, 0, 7 }, ridge.data.npy(path):tolist())
      write(npy('|u1', '()', '\9'))
      assert.are.equal(9, ridge.data.npy(path):item())
      write(npy('<f8', '(2, 3)', bytes({ 1, 4, 2, 5, 3, 6 }, 'double'), true))
      assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, ridge.data.npy(path):tolist())
    end)

    it('that is damaged is an error', function()
      local text = npy('<f4', '(2, 3)', bytes({ 1, 2, 3, 4, 5, 6 }, 'float'))
      cut_everywhere(text, ridge.data.npy)
      change_everywhere(text, ridge.data.npy)
      write(npy('>f4', '(1,)', '\0\0\0\0'))
      assert.matches(path .. ' is big-endian; save it as little-endian',
        message(ridge.data.npy, path), 1, true)
      write(npy('>f2', '(1,)', '\0\0'))
      assert.matches('is big%-endian', message(ridge.data.npy, path))
      write(npy('>i1', '(2,)', '\1\255')) -- one byte has no order
      assert.same({ 1, -1 }, ridge.data.npy(path):tolist())
      write(npy('|b1', '(3,)', '\0\1\255'))
      assert.matches('has 255 as element 3, and a bool is 0 or 1', message(ridge.data.npy, path))
      write(npy('<c8', '(1,)', ('\0'):rep(8)))
      assert.matches('type c8, which ridge does not have', message(ridge.data.npy, path))
      write(npy('<f4', '(99999999, 99999999)', ''))
      assert.matches('says that it holds', message(ridge.data.npy, path))
      assert.matches('no such file', message(ridge.data.npy, folder .. '/none'):lower())
    end)
  end)

  -- No array of LuaJIT's is as long as these elements, which are a hole in the file.
  it('of 2^31 bytes is read until there is no memory, which is said', function()
    local head = "{'descr': '|u1', 'fortran_order': False, 'shape': (2147483657,), }"
    head = head .. (' '):rep(117 - #head) .. '\n'
    for read, start in pairs { [ridge.data.npy] = '\147NUMPY\1\0\118\0' .. head,
      [ridge.data.idx] = '\0\0\8\1\128\0\0\9' } do
      local file = assert(io.open(path, 'wb'))
      file:write(start)
      file:seek('cur', 2147483656)
      file:write '\7'
      file:close()
      ridge.memory.set_limit(2 ^ 30)
      local ok, e = pcall(read, path)
      ridge.memory.set_limit(0)
      assert.is_false(ok)
      assert.equal('ENOMEM', e.code)
      assert.matches('^data%.%a+: .*limit of 1024 MB', e.message)
    end
  end)

  it('packed is read as what is in it', function()
    local shape, elements = '(5, 1000003)', ('\1\2\3\4\5\6\7'):rep(714288):sub(1, 5000015)
    local head = ("{'descr': '|u1', 'fortran_order': False, 'shape': %s, }"):format(shape)
    head = head .. (' '):rep(117 - #head) .. '\n'
    write('\147NUMPY\1\0\118\0' .. head .. elements)
    local plain = ridge.data.npy(path)
    assert.equal(0, os.execute(('gzip -1 %s && mv %s.gz %s'):format(path, path, path)))
    local packed = ridge.data.npy(path)
    assert.is_true(packed:equal(plain))
    assert.equal(elements:byte(3000000), packed:get(3, 3000000 - 2 * 1000003))
    assert.equal(elements:byte(-1), packed:get(5, 1000003))
    write(('\31\139'):rep(3))
    assert.matches('data.npy: ', message(ridge.data.npy, path))
  end)

  describe('of lines', function()
    it('is a matrix, with the names of its columns', function()
      write 'a,b\n1,2.5\n-3, 4e1 \n\n'
      local x, names = ridge.data.csv(path)
      assert.same({ { 1, 2.5 }, { -3, 40 } }, x:tolist())
      assert.same({ 'a', 'b' }, names)
      write '\239\187\1911;2\r\n3;4\r\n'
      x, names = ridge.data.csv(path, { separator = ';', dtype = 'f64' })
      assert.same({ { 1, 2 }, { 3, 4 } }, x:tolist())
      assert.is_nil(names)
      write '"1","2"\n3,\n'
      assert.same({ { 1, 2 }, { 3, -1 } }, ridge.data.csv(path, { missing = -1 }):tolist())
    end)

    it('keeps every digit of a whole number, or says that it does not', function()
      write 'id\n9007199254740993\n-9223372036854775808\n+007\n9223372036854775807\n1e3\n-0\n'
      local x = ridge.data.csv(path, { dtype = 'i64' })
      local slot = ffi.new 'int64_t[6]'
      ridge.save(folder .. '/x.npy', x)
      local file = io.open(folder .. '/x.npy', 'rb')
      ffi.copy(slot, file:read '*a':sub(-48), 48)
      file:close()
      for i, value in ipairs { 9007199254740993LL, -9223372036854775807LL - 1, 7LL,
        9223372036854775807LL, 1000LL, 0LL } do
        assert.is_true(slot[i - 1] == value, i)
      end
      assert.equal('i64', x.dtype)
      for text, words in pairs { ['9223372036854775808'] = 'i64', ['-9223372036854775809'] = 'i64',
        ['1.5'] = 'i64', nan = 'i64', inf = 'i64', ['1e19'] = 'i64', ['256'] = 'u8', ['-1'] = 'u8',
        ['128'] = 'i8', ['2147483648'] = 'i32', ['0.5'] = 'i32' } do
        write('1\n' .. text .. '\n')
        assert.matches(('line 2, column 1: %s is no %s'):format(text:gsub('%p', '%%%0'), words),
          message(ridge.data.csv, path, { dtype = words }))
      end
      write '1,\n'
      assert.matches('column 2: 300 is no u8', message(ridge.data.csv, path,
        { dtype = 'u8', missing = 300 }))
      -- of the type that nobody named
      for _, text in ipairs { '16777217', '-9007199254740993', '36893488147419103233',
        ('9'):rep(60) } do
        write(text .. '\n')
        assert.matches('column 1: ' .. text:gsub('%p', '%%%0') .. ' has more digits than f32 holds',
          message(ridge.data.csv, path))
        assert.equal(tonumber(text), ridge.data.csv(path, { dtype = 'f64' }):item())
        assert.equal('f32', ridge.data.csv(path, { dtype = 'f32' }).dtype)
      end
      for _, text in ipairs { '1e39', '-1e300', '3.5e38' } do -- not silently an infinity
        write(text .. '\n')
        assert.matches('column 1: ' .. text:gsub('%p', '%%%0') .. ' is more than f32 holds',
          message(ridge.data.csv, path))
        assert.equal(tonumber(text), ridge.data.csv(path, { dtype = 'f64' }):item())
      end
      write '-1e400\n'
      assert.matches('column 1: %-1e400 is more than any type holds', message(ridge.data.csv, path))
      write 'inf\n-inf\n'
      assert.same({ math.huge, -math.huge }, ridge.data.csv(path):reshape(2):tolist())
      write '16777216\n-33554432\n36893488147419103232\n0\n-0\n1e38\n0.1\n00012\n'
      assert.equal(8, ridge.data.csv(path):size(1))
      write '1\n'
      assert.matches("there is no element type 'i46' %(did you mean 'i64'%?%)",
        message(ridge.data.csv, path, { dtype = 'i46' }))
    end)

    it('is not read to its end where Ctrl-C stands', function()
      local C = require 'ridge.ffi.lib'
      write '1,2\n3,4\n'
      for name, read in pairs { csv = ridge.data.csv, text = ridge.data.text } do
        C.rg_interrupt_set()
        local ok, err = pcall(read, path)
        C.rg_interrupt_clear()
        assert.is_false(ok)
        assert.equal('EINTR', err.code, name)
      end
    end)

    it('has lines of any length, ended in any way, wherever its pieces end', function()
      local lines, sum, n = { '\239\187\191a,b' }, 0, 250000
      for i = 1, n do
        lines[i + 1] = i % 3 == 0 and ('"%d" , %d'):format(i, 2 * i) or ('%d,%d'):format(i, 2 * i)
        sum = sum + 3 * i
      end
      for _, ending in ipairs { '\n', '\r\n' } do
        for _, last in ipairs { '', ending } do
          write(table.concat(lines, ending) .. last)
          local x, names = ridge.data.csv(path, { dtype = 'f64' })
          assert.same({ 'a', 'b' }, names)
          assert.same({ n, 2 }, x:size())
          assert.equal(sum, x:sum():item())
          assert.equal(2 * n, x[n][2]:item())
        end
      end
      write(('1,'):rep(1500000) .. '2\n')
      assert.same({ 1, 1500001 }, ridge.data.csv(path):size())
      write(('0'):rep(2 ^ 20) .. ',1\n')
      assert.same({ 1, 2 }, ridge.data.csv(path):size())
      write(('x'):rep(2 ^ 20 + 1) .. ',1\n')
      assert.matches('line 1 has a field of more than a megabyte', message(ridge.data.csv, path))
    end)

    it('may quote its fields, with separators and quotes in them', function()
      write '"x, of it","say ""b"" "\n1,"2"\n "3" , 4\n'
      local x, names = ridge.data.csv(path)
      assert.same({ 'x, of it', 'say "b" ' }, names)
      assert.same({ { 1, 2 }, { 3, 4 } }, x:tolist())
      write '"1"\t"2"\n3\t4\n'
      assert.same({ { 1, 2 }, { 3, 4 } }, ridge.data.csv(path, { separator = '\t' }):tolist())
      write '"of two\r\nlines, ""x""\n",b\n1,"2\n"\n3,4\n'
      x, names = ridge.data.csv(path)
      assert.same({ 'of two\nlines, "x"\n', 'b' }, names)
      assert.same({ { 1, 2 }, { 3, 4 } }, x:tolist())
      write '"a\n\nb",c\n1,x\n' -- a line is counted as an editor counts it
      assert.matches("line 4, column 2: 'x' is no number", message(ridge.data.csv, path))
      write '1,2\n3,"4\n5,6\n7,8\n'
      assert.matches('line 2 has a quote that is not closed', message(ridge.data.csv, path))
      write '1,2\n"3,5",4\n'
      assert.matches("line 2, column 1: '3,5' is no number", message(ridge.data.csv, path))
      write '1,2\n"3,4\n'
      assert.matches('line 2 has a quote that is not closed', message(ridge.data.csv, path))
      write '1,2\n"3"x,4\n'
      assert.matches('line 2 has text behind a quoted field', message(ridge.data.csv, path))
    end)

    it('says which line is wrong', function()
      write '1,2\n3\n'
      assert.matches('line 2 has 1 field, the first has 2', message(ridge.data.csv, path))
      write '1,2\n3,x\n'
      assert.matches("line 2, column 2: 'x' is no number", message(ridge.data.csv, path))
      write '1,2\n3,\n'
      assert.matches('column 2: an empty field is nan, which i32 has not', message(ridge.data.csv,
        path, { dtype = 'i32' }))
      write ''
      assert.matches('has no numbers', message(ridge.data.csv, path))
      for _, text in ipairs { '1,NA\n2,3\n', 'label,0,1\n7,8,9\n' } do
        write(text)
        assert.matches('line 1 has words and numbers', message(ridge.data.csv, path))
        local _, names = ridge.data.csv(path, { header = true })
        assert.equal(text:match '^[^,]*', names[1])
      end
      write '1,,3\n'
      local x = ridge.data.csv(path, { missing = 0 / 0 }):tolist()[1]
      assert.is_true(x[2] ~= x[2] and x[3] == 3)
      for _, sign in ipairs { '', '::', '\n', '"', '1' } do
        assert.matches('separator is one sign', message(ridge.data.csv, path, { separator = sign }))
      end
      change_everywhere('a,b\n1,2\n3,4\n', ridge.data.csv)
    end)
  end)

  it('of CIFAR is images and labels, for ten classes and for a hundred', function()
    local function image(label, value) return label .. string.char(value):rep(3072) end
    write(image('\3', 7) .. image('\9', 8), 'data_batch_1.bin')
    write(image('\1', 5), 'data_batch_2.bin')
    write(image('\0', 1), 'test_batch.bin')
    local sets = ridge.data.cifar(folder)
    assert.same({ 3, 3, 32, 32 }, sets.train.images:size())
    assert.same({ 3, 9, 1 }, sets.train.labels:tolist())
    assert.are.equal(8, sets.train.images:select(1, 2):max():item())
    assert.same({ 0 }, sets.test.labels:tolist())
    write(image('\3', 7):sub(1, 3000), 'data_batch_2.bin')
    assert.matches('3000 bytes, which is 0.98 images of 3073', message(ridge.data.cifar, folder))
    write(image('\2\42', 7), 'train.bin')
    write(image('\2\43', 7), 'test.bin')
    assert.same({ 42 }, ridge.data.cifar(folder).train.labels:tolist())
    assert.matches('neither data_batch_1.bin nor train.bin', message(ridge.data.cifar, '/'))
  end)

  it('of text is a number for each byte, and back', function()
    write 'abba\0z'
    local text = ridge.data.text(path)
    assert.same({ 1, 2, 2, 1, 0, 3 }, text.tokens:tolist())
    assert.same({ 1, 2, 2, 1 }, text.counts)
    assert.are.equal('zab', text.decode { 3, 1, 2 })
    assert.are.equal('abba\0z', text.decode(text.tokens))
    for _, wrong in ipairs { { 4 }, { -1 }, { 0.5 }, { 'a' }, 3 } do
      assert.matches('_spec.lua:%d+: data.text: ', message(text.decode, wrong))
    end
    assert.matches('number 2, 4, is no letter; they go from 0 to 3', message(text.decode, { 0, 4 }))
    write ''
    assert.matches('is empty', message(ridge.data.text, path))
  end)

  it('of text of some megabytes is the same numbers', function()
    local text = ('zebra '):rep(500000) .. 'a'
    write(text)
    write('', 'none')
    local t = ridge.data.text { path, folder .. '/none', path }
    assert.same({ 2 * #text }, t.tokens:size())
    assert.same({ 32, 97, 98, 101, 114, 122 }, t.letters)
    assert.same({ 1000000, 1000002, 1000000, 1000000, 1000000, 1000000 }, t.counts)
    assert.equal(text:sub(-6000) .. text:sub(1, 6000),
      t.decode(t.tokens:narrow(1, #text - 5999, 12000)))
  end)

  it('of rows is read where it lies, and says what does not fit', function()
    write('head' .. bytes({ 1, 2, 3, 4, 5, 6 }, 'float'))
    local rows = ridge.data.rows(path, { shape = { 2 }, offset = 4 })
    assert.are.equal(3, rows.rows)
    local loader = ridge.data.Loader(rows, { batch = 2, shuffle = false })
    local list = {}
    for x in loader:each() do list[#list + 1] = x:tolist() end
    assert.same({ { { 1, 2 }, { 3, 4 } }, { { 5, 6 } } }, list)
    assert.matches('that is 3.5 rows of 8 bytes', message(ridge.data.rows, path, { shape = { 2 } }))
    assert.matches('and 4 are wanted', message(ridge.data.rows, path, { shape = { 2 }, rows = 4 }))
    assert.matches('sizes of a row', message(ridge.data.rows, path, { shape = { 0 } }))
    local ok, hole = pcall(ridge.data.rows, path, { shape = { nil, 2 } })
    assert.is_false(ok)
    assert.matches('place 1 is nil', tostring(hole))
    assert.are.equal(6, ridge.data.rows(path, { shape = { 1 }, offset = 4 }).rows)
    -- it is cut off after it was opened
    write('head' .. bytes({ 1, 2, 3 }, 'float'))
    assert.matches('row 1 is cut off: 16 bytes are there, 20 are wanted', message(function()
      for _ in loader:each() do end
    end))
  end)

  it('make tensors where their module is all that was required', function()
    write '1,2\n3,4\n'
    local text, status = folders.run(([[./build/ridge -e '
      print(require("ridge.data").csv("%s"):sum():item())']]):format(path))
    assert.equal(0, status, text)
    assert.equal('10\n', text)
  end)
end)
