-- SPDX-License-Identifier: MIT
-- What ridge.load makes of files by their content, whatever they are called, and ridge.peek of
-- their headers; archives that are damaged, or made to do harm.
local ridge = require 'ridge'
local blame = require 'ridge.blame'
local folders = dofile 'tests/lua/store/folder.lua'

local folder = folders.in_memory()
local path = folder .. '/file'

local function put(text, at) folders.put(at or path, text) end

local function get(at) return folders.get(at or path) end

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.is_true(blame.is_error(err), tostring(err))
  return tostring(err.message)
end

local function quietly(f, ...)
  local stderr = io.stderr
  io.stderr = { write = function() end } -- luacheck: ignore 122
  local found = { pcall(f, ...) }
  io.stderr = stderr -- luacheck: ignore 122
  if not found[1] then error(found[2], 0) end
  return unpack(found, 2, 4)
end

local function le(n, bytes)
  local out = {}
  for i = 1, bytes do out[i], n = string.char(n % 256), math.floor(n / 256) end
  return table.concat(out)
end

-- Packed by deflate, and the sum, out of what gzip makes.
local function deflated(text)
  put(text, path .. '.raw')
  os.execute(("gzip -nc '%s.raw' > '%s.gz'"):format(path, path))
  local gz = get(path .. '.gz')
  return gz:sub(11, -9), gz:sub(-8, -5)
end

-- A zip archive of members {name, text, packed = true}.
local function zip(members)
  local body, list = '', ''
  for _, m in ipairs(members) do
    local packed, sum = deflated(m[2])
    if not m.packed then packed = m[2] end
    local head = le(m.packed and 8 or 0, 2) .. le(0, 4) .. (m.sum or sum) .. le(#packed, 4)
      .. le(#m[2], 4) .. le(#m[1], 2)
    list = list .. 'PK\1\2' .. le(20, 2) .. le(20, 2) .. le(m.flags or 0, 2) .. head .. le(0, 2)
      .. le(0, 2) .. le(0, 8) .. le(#body, 4) .. m[1]
    body = body .. 'PK\3\4' .. le(20, 2) .. le(m.flags or 0, 2) .. head .. le(0, 2) .. m[1]
      .. packed
  end
  return body .. list .. 'PK\5\6' .. le(0, 4) .. le(#members, 2) .. le(#members, 2) .. le(#list, 4)
    .. le(#body, 4) .. le(0, 2)
end

local function npy(x)
  ridge.save(path .. '.npy', x)
  return get(path .. '.npy')
end

describe('a file known by its content', function()
  teardown(function() folders.remove(folder) end)

  it('of NumPy or IDX is its tensor, packed or not', function()
    local x = ridge.randn(3, 4)
    -- of a type that ridge lacks: texts of NumPy's have four bytes a letter
    for name, bytes in pairs { ['<U2'] = 96, ['|S3'] = 36, ['<u2'] = 24, ['<c16'] = 192 } do
      put((npy(x):gsub("'<f4'", ("'%s'"):format(name))))
      local one = ridge.peek(path)[1]
      assert.same({ name:sub(2), bytes, true }, { one.dtype, one.bytes, one.unknown })
    end
    -- packed, and more than is read at once
    local long = ridge.arange(0, 2 ^ 19 + 3)
    put(npy(long))
    os.execute(("gzip -nc1 '%s' > '%s.gz'"):format(path, path))
    assert.is_true(ridge.load(path .. '.gz'):equal(long))
    put(npy(x))
    assert.is_true(ridge.load(path):equal(x))
    local seen = ridge.peek(path)
    assert.same({ 'npy', 1, 'f32', { 3, 4 }, 48 }, { seen.kind, #seen, seen[1].dtype, seen[1].shape,
      seen[1].bytes })
    os.execute(("gzip -nc '%s' > '%s.gz'"):format(path, path))
    assert.is_true(ridge.load(path .. '.gz'):equal(x))
    put '\0\0\8\2\0\0\0\2\0\0\0\3abcdef'
    assert.same({ { 97, 98, 99 }, { 100, 101, 102 } }, ridge.load(path):tolist())
    os.execute(("gzip -nc '%s' > '%s.gz'"):format(path, path))
    assert.equal(ridge.load(path .. '.gz'):describe(), ridge.load(path):describe())
    seen = ridge.peek(path .. '.gz')
    assert.same({ 'idx', 'u8', { 2, 3 }, 6 }, { seen.kind, seen[1].dtype, seen[1].shape,
      seen[1].bytes })
    put '\0\0\8\2\0\0\0\2\0\0\0\3abcde'
    assert.matches('^load: .* is cut off', message(ridge.load, path))
    put('\0\0\8\8' .. ('\0\0\0\1'):rep(7) .. '\0\0\0\2ab') -- the most axes that there are
    assert.same({ 1, 1, 1, 1, 1, 1, 1, 2 }, ridge.load(path):size())
    put('\0\0\8\9' .. ('\0\0\0\1'):rep(9) .. 'a')
    assert.matches('^load: .* is no safetensors file', message(ridge.load, path))
    put '\147NUMPY\1\0\118\0{"descr": "<f4"}'
    assert.matches('^load: .* is cut off in its header', message(ridge.load, path))
  end)

  it('of many arrays is a table of them, stored or deflated', function()
    local x, y = ridge.randn(30, 40), ridge.arange(0, 6):to 'i64'
    for _, packed in ipairs { false, true } do
      put(zip { { 'x.npy', npy(x), packed = packed }, { 'a/y.npy', npy(y), packed = packed } })
      local found = ridge.load(path)
      assert.is_true(found.x:equal(x))
      assert.is_true(found['a/y']:equal(y))
      local seen = ridge.peek(path)
      assert.same({ 'npz', 2, 'x', 4800, 'a/y', { 7 } }, { seen.kind, #seen, seen[1].name,
        seen[1].bytes, seen[2].name, seen[2].shape })
    end
    -- a type that ridge lacks
    local strange = npy(y):gsub("'<i8'", "'<u8'")
    put(zip { { 'x.npy', npy(x) }, { 'y.npy', strange } })
    local found, _, left_out = quietly(ridge.load, path)
    assert.is_true(found.x:equal(x))
    assert.same({ y = 'u8' }, left_out)
    assert.is_true(ridge.peek(path)[2].unknown)
    -- objects of Python are a pickle: that array is left out, and alone it says what to do
    for name, descr in pairs { O = "'|O'", record = "[('a', '<f4')]" } do
      local odd = npy(y):gsub("'<i8'", descr)
      put(zip { { 'x.npy', npy(x) }, { 'y.npy', odd } })
      found, _, left_out = quietly(ridge.load, path)
      assert.is_true(found.x:equal(x))
      assert.same({ y = name }, left_out)
    end
    put((npy(y):gsub("'<i8'", "'|O'")))
    assert.matches('holds objects of Python as a pickle, which can run anything: in Python, np%.',
      message(ridge.load, path))
    put 'PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
    assert.matches('a zip archive with nothing in it', message(ridge.load, path))
    put(zip { { 'y.npy', strange } })
    assert.matches('no array that ridge can read: y is of type u8', message(ridge.load, path))
  end)

  -- The same archive in the form for what 32 bits do not hold: each number of the end and of the
  -- list stands where there are 64, behind another field that says nothing here.
  local function wide(members)
    local text = zip(members)
    local tail = #text - 22
    local bytes, start = text:sub(tail + 13, tail + 16), text:sub(tail + 17, tail + 20)
    local function value(le4) return le4:byte() + 256 * le4:byte(2) + 65536 * le4:byte(3) end
    local at, list = value(start) + 1, ''
    for _, m in ipairs(members) do
      local head = text:sub(at, at + 45)
      list = list .. head:sub(1, 20) .. ('\255'):rep(8) .. head:sub(29, 30) .. le(34, 2)
        .. head:sub(33, 42) .. ('\255'):rep(4) .. m[1] .. le(7, 2) .. le(2, 2) .. 'xx' .. le(1, 2)
        .. le(24, 2) .. head:sub(25, 28) .. le(0, 4) .. head:sub(21, 24) .. le(0, 4)
        .. head:sub(43, 46) .. le(0, 4)
      at = at + 46 + #m[1]
    end
    assert.equal(value(bytes), at - 1 - value(start))
    local before = text:sub(1, value(start))
    local record = 'PK\6\6' .. le(44, 8) .. le(45, 2) .. le(45, 2) .. le(0, 8) .. le(#members, 8)
      .. le(#members, 8) .. le(#list, 8) .. le(#before, 8)
    local place = 'PK\6\7' .. le(0, 4) .. le(#before + #list, 8) .. le(1, 4)
    return before .. list .. record .. place .. 'PK\5\6' .. le(0, 4) .. ('\255'):rep(12) .. le(0, 2)
  end

  it('of many arrays may have its numbers in 64 bits', function()
    local x, y = ridge.randn(30, 40), ridge.arange(0, 6):to 'i64'
    local whole = wide { { 'x.npy', npy(x), packed = true }, { 'y.npy', npy(y) } }
    put(whole)
    local found = ridge.load(path)
    assert.is_true(found.x:equal(x))
    assert.is_true(found.y:equal(y))
    put((whole:gsub('PK\6\7', 'PK\6\8')))
    assert.matches('has no list of its members', message(ridge.load, path))
    put((whole:gsub('PK\6\6', 'PK\6\5')))
    assert.matches('has no list of its members', message(ridge.load, path))
  end)

  it('has a list of 16 MB at most', function()
    local room = ('\0'):rep(2 ^ 24 + 1)
    local member = zip({ { 'x.npy', npy(ridge.ones(1)) } }):match '^(.-)PK\1\2'
    for bytes, text in pairs { [2 ^ 24] = 'lists 1 members and has 0',
        [2 ^ 24 + 1] = 'has a list of its members that it has no room for' } do
      put(member .. room .. 'PK\5\6' .. le(0, 4) .. le(1, 2) .. le(1, 2) .. le(bytes, 4)
        .. le(#member, 4) .. le(0, 2))
      assert.matches(text, message(ridge.load, path))
    end
  end)

  it('is refused where an archive is damaged', function()
    local x = npy(ridge.ones(300))
    local whole = zip { { 'x.npy', x, packed = true } }
    for n = 35, #whole - 1 do
      put(whole:sub(1, n))
      assert.matches('is cut off: the list at its end is missing', message(ridge.load, path))
    end
    put(zip { { 'x.npy', x }, { 'x.npy', x } })
    assert.matches('has "x.npy" twice', message(ridge.load, path))
    put(zip { { 'x.npy', x, sum = '\1\2\3\4' } })
    assert.matches('is damaged: "x.npy" is not what was put in', message(ridge.load, path))
    put(zip { { 'x.npy', x, flags = 1 } })
    assert.matches('behind a password', message(ridge.load, path))
    put(zip { { 'x.npy', x }, { 'readme', 'text' } })
    assert.matches('has "readme", which is no array', message(ridge.load, path))
    put(zip { { 'x.npy', x .. 'more' } })
    assert.matches('goes on behind its 300 elements', message(ridge.load, path))
    math.randomseed(3)
    for _ = 1, 500 do
      local bytes = { whole:byte(1, -1) }
      for _ = 1, math.random(3) do bytes[math.random(30, #bytes)] = math.random(0, 255) end
      for i, b in ipairs(bytes) do bytes[i] = string.char(b) end
      put(table.concat(bytes))
      local ok, err = pcall(quietly, ridge.load, path)
      assert.is_true(ok or blame.is_error(err), tostring(err))
    end
  end)

  it('of Python says what makes a file of it', function()
    for _, name in ipairs { 'archive/data.pkl', 'net/data.pkl', 'net/.format_version' } do
      put(zip { { name, 'x' } })
      for _, f in ipairs { ridge.load, ridge.peek } do
        assert.matches("is no safetensors file, but a file of PyTorch's, .*safetensors.torch"
          .. '.save_file', message(f, path))
      end
    end
    -- the protocols 0, 1 and 2 of {'a': 1}, of a list, of an object
    for _, text in ipairs { '\128\2}q\0(X\1\0\0\0a', '(dp0\nVa\np1\nI1\ns.',
      '}q\0(X\1\0\0\0a', '(lp0\nI1\naI2\na.',
      'ccopy_reg\n_reconstructor\np0\n(c__main__\nNet\n' } do
      put(text)
      for _, f in ipairs { ridge.load, ridge.peek } do
        assert.matches('a pickle of Python.s, which can run anything: in Python, safetensors.torch',
          message(f, path))
      end
    end
  end)

  it('that is none says what it is, by more than its first bytes', function()
    for text, said in pairs { ['BZh91AY&SY\1\2'] = 'packed by bzip2', ['\2537zXZ\0\0\4'] =
        'packed by xz', ['(\181/\253\4\0\1\2'] = 'packed by zstd', ['7z\188\175\39\28\0\4'] =
        'a 7%-Zip archive', ['PAR1\21\4\21\2'] = 'a Parquet file', ['1,2\n'] = 'text: ridge.data',
        ['x'] = 'text: ridge.data', ['1,2\n3,4\n' .. ('a,b\n'):rep(300)] = 'text: ridge.data' } do
      for _, f in ipairs { ridge.load, ridge.peek } do
        put(text)
        assert.matches('is no safetensors file, but ' .. said, message(f, path))
      end
    end
    for _, letter in ipairs { 'ä', '€', '𝄞' } do -- of which what is looked at may have a part
      for n = 508, 512 do
        put(('a'):rep(n) .. letter .. 'b')
        assert.matches('but text: ridge.data', message(ridge.load, path))
      end
    end
    put(('letters '):rep(9) .. '\0\1\2')
    assert.matches('is no safetensors file$', message(ridge.load, path))
    put ''
    assert.matches('is cut off: it has no header$', message(ridge.load, path))
  end)

  it('of NumPy is of a known version and order', function()
    local bytes = npy(ridge.ones(2, 3))
    for version = 0, 9 do
      put(bytes:sub(1, 6) .. string.char(version) .. bytes:sub(8))
      local known = version > 0 and version < 4
      if version ~= 1 then
        assert.matches(known and 'has a header of' or ('is of version %d of .npy; 1 to 3 are known')
          :format(version), message(ridge.load, path))
      end
    end
    -- the second version counts its header by four bytes
    local header = bytes:sub(11, 10 + bytes:byte(9) + 256 * bytes:byte(10)):gsub('%s*$', '')
    for n, known in pairs { [65536] = true, [65537] = false } do
      put('\147NUMPY\2\0' .. string.char(n - 65536) .. '\0\1\0' .. header .. (' '):rep(n - #header)
        .. bytes:sub(-24))
      if known then
        assert.same({ { 1, 1, 1 }, { 1, 1, 1 } }, ridge.load(path):tolist())
      else
        assert.matches('has a header of 65537 bytes', message(ridge.load, path))
      end
    end
    for _, order in ipairs { 'Tru', 'true', 'FalseX', 'None' } do
      put((bytes:gsub("'fortran_order': False,", ("'fortran_order': %s,"):format(order))))
      assert.matches('has a header that says: ', message(ridge.load, path))
    end
  end)

  it('is safetensors whatever its length looks like', function()
    -- a header of as many bytes as a gzip file begins with: 31 139 8
    local header = '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    put('\31\139\8\0\0\0\0\0' .. header .. (' '):rep(0x088b1f - #header) .. '\7')
    assert.equal(7, ridge.load(path).a:item())
  end)
end)

describe('peeking', function()
  teardown(function() folders.remove(folder) end)

  it('shows what a file holds, in a call and from the shell', function()
    os.execute('mkdir -p ' .. folder)
    local at = folder .. '/net.safetensors'
    ridge.save(at, { w = ridge.ones(2, 3), b = ridge.zeros(3):to 'bf16' }, { who = 'me\27[2J' })
    local seen = ridge.peek(at)
    assert.equal(folder .. '/net.safetensors: safetensors, 2 tensors, 30 B\n'
      .. 'name  type  shape  bytes\nb     bf16  [3]      6 B\nw     f32   [2,3]   24 B\n'
      .. 'note who: me\\027[2J', tostring(seen))
    assert.is_nil(seen[1].file)
    assert.matches('b  .*3%] +6 B\n... 1 more\nnote', seen:text(1))
    for _, wrong in ipairs { 'x', 0, 1.5, 0 / 0 } do
      assert.matches('number of lines is a whole number from 1', select(2, pcall(seen.text, seen,
        wrong)).message)
    end
    local text, status = folders.run('./ridge peek ' .. at .. ' ' .. at)
    assert.equal(0, status)
    assert.equal(tostring(seen) .. '\n\n' .. tostring(seen) .. '\n', text)
    text, status = folders.run('./ridge peek ' .. folder .. '/none')
    assert.equal(1, status)
    assert.matches('ridge peek: .*/none: No such file', text)
    text, status = folders.run './ridge peek'
    assert.equal(1, status)
    assert.matches('a file is missing', text)
    local many = {}
    for i = 1, 30 do many['w' .. i] = ridge.ones(1) end
    ridge.save(at, many)
    assert.matches('%.%.%. 22 more', tostring(ridge.peek(at)))
    local _, lines = folders.run('./ridge peek ' .. at):gsub('\n', '')
    assert.equal(32, lines)
  end)
end)
