-- SPDX-License-Identifier: MIT
-- Tensors in files: every type comes back, and every damage is a sentence.
local ridge = require 'ridge'
local blame = require 'ridge.blame'
local folders = dofile 'tests/lua/store/folder.lua'

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.is_true(blame.is_error(err), tostring(err))
  return tostring(err)
end

describe('a file of tensors', function()
  local folder, path

  before_each(function()
    folder = folders.new()
    path = folder .. '/x.safetensors'
  end)
  after_each(function() folders.remove(folder) end)

  local function read(name)
    local file = assert(io.open(name, 'rb'))
    local text = file:read '*a'
    file:close()
    return text
  end

  local function write(text)
    local file = assert(io.open(path, 'wb'))
    file:write(text)
    file:close()
  end

  it('of another kind is called what it is', function()
    for text, words in pairs {
      ['1,2,3\n4,5,6\n'] = 'text: ridge.data.csv', ['\31\139\8\0\0\0\0\0\0\3'] = 'packed by gzip',
      ['PK\3\4\20\0\0\0\8\0'] = 'a zip archive', ['SQLite format 3\0'] = 'a database',
      ['\128\2}q\0(X\1\0\0'] = 'a pickle',
    } do
      write(text)
      local said = message(ridge.load, path)
      assert.truthy(said:find(('load: %s is no safetensors file, but %s'):format(path, words), 1,
        true), said)
    end
    -- who knows, and no number of bytes that nobody wrote
    for _, bytes in ipairs { '\200\1', 'h&\238\162Y\183\196V', 'caf\233,1\n' } do
      write(bytes:rep(20))
      assert.matches('is no safetensors file$', message(ridge.load, path))
    end
    for _, text in ipairs { 'aaaaaaä\n', '\239\187\191a,b\n1,2', 'Größe,üb' } do -- cut or not
      write(text .. text)
      assert.matches('but text: ridge.data.csv', message(ridge.load, path))
    end
  end)

  it('that ends in .npy is one of NumPy, and one that promises another format is refused',
  function()
    path = folder .. '/x.NPY'
    for _, dtype in ipairs { 'f32', 'f64', 'f16', 'i64', 'i32', 'i8', 'u8', 'bool' } do
      for _, sizes in ipairs { {}, { 5 }, { 2, 3 }, { 0, 3 }, { 1, 1, 1, 1, 1, 1, 1, 2 } } do
        local x = (ridge.full(3, unpack(sizes))):to(dtype)
        ridge.save(path, x)
        local back = ridge.data.npy(path)
        assert.equal(x:describe(), back:describe())
        assert.is_true(back:equal(x))
      end
    end
    ridge.save(path, { w = ridge.arange(0, 5):reshape(2, 3):t():to 'i32' })
    assert.equal("\147NUMPY\1\0\118\0{'descr': '<i4', 'fortran_order': False, 'shape': (3, 2), }"
      .. (' '):rep(58) .. '\n\0\0\0\0\3\0\0\0\1\0\0\0\4\0\0\0\2\0\0\0\5\0\0\0', read(path))
    ridge.save(path, ridge.ones(7))
    assert.matches("'shape': %(7,%), }", read(path))
    local before = read(path)
    local one = ridge.ones(1)
    assert.matches('NumPy has no bf16', message(ridge.save, path, one:to 'bf16'))
    assert.matches('holds one tensor', message(ridge.save, path, { a = one, b = one }))
    assert.matches('holds one tensor', message(ridge.save, path, {}))
    assert.matches('no place for notes', message(ridge.save, path, one, { who = 'me' }))
    assert.matches('a tensor is expected', message(ridge.save, path, { 3 }))
    assert.equal(before, read(path))
    for _, ending in ipairs { 'npz', 'csv', 'pt', 'JSON', 'png', 'safetensors.gz' } do
      assert.matches('would be a safetensors file', message(ridge.save, folder .. '/x.' .. ending,
        { a = one }))
    end
    assert.matches('has a name there', message(ridge.save, folder .. '/x.safetensors', one))
    ridge.save(folder .. '/x.bin', { a = one })
    assert.equal('x.NPY x.bin', folders.list(folder))
  end)

  it('gives back what was saved, in every type, strides and notes included', function()
    local given = { empty = ridge.zeros(0, 3), scalar = ridge.full(2.5),
      turned = ridge.randn(3, 4):t() }
    for _, dtype in ipairs { 'f32', 'f64', 'f16', 'bf16', 'i64', 'i32', 'i8', 'u8', 'bool',
      'f8e4m3', 'f8e5m2' } do
      given['a.' .. dtype] = (ridge.arange(0, 5) - 2):to(dtype):reshape(2, 3)
    end
    ridge.save(path, given, { who = 'ü "quoted"' })
    local found, notes = ridge.load(path)
    assert.same({ who = 'ü "quoted"' }, notes)
    for name, x in pairs(given) do
      assert.equal(x:describe(), found[name]:describe())
      assert.is_true(found[name]:equal(x), name)
    end
    assert.equal('x.safetensors', folders.list(folder))
  end)

  it('is what the format says: a length, JSON, the elements side by side', function()
    ridge.save(path, { b = ridge.tensor { 1.5 }, a = ridge.tensor({ 7 }, { dtype = 'u8' }) })
    local text = read(path)
    local n = text:byte(1) + 256 * text:byte(2)
    assert.equal(0, (n + 8) % 8)
    assert.equal('{"a":{"data_offsets":[0,1],"dtype":"U8","shape":[1]},'
      .. '"b":{"data_offsets":[1,5],"dtype":"F32","shape":[1]}}',
      (text:sub(9, 8 + n):gsub(' +$', '')))
    assert.equal('\7\0\0\192\63', text:sub(9 + n))
  end)

  it('cut off anywhere is a sentence', function()
    ridge.save(path, { a = ridge.randn(5), b = ridge.ones(2, 2) })
    local whole = read(path)
    for n = 0, #whole - 1 do
      write(whole:sub(1, n))
      -- one byte may be a letter
      assert.matches(n == 1 and 'is no safetensors file, but text' or 'is cut off',
        message(ridge.load, path))
    end
    write(whole .. 'x')
    assert.matches('has 1 bytes behind its last tensor', message(ridge.load, path))
  end)

  it('with a header that lies is a sentence, and takes no memory', function()
    local function lie(header, data)
      write(string.char(#header % 256, math.floor(#header / 256), 0, 0, 0, 0, 0, 0) .. header
        .. (data or ''))
      return message(ridge.load, path)
    end
    assert.matches('its header is no JSON', lie '{"a":')
    assert.matches('its header is no JSON', lie(('['):rep(60000)))
    assert.matches('no tensor that ridge can read under "a"', lie '{"a":3}')
    assert.matches('no tensor that ridge can read',
      lie('{"a":{"dtype":"X9","shape":[],"data_offsets":[0,1]}}', 'x'))
    assert.matches('a place that is not that of its shape',
      lie('{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,1]}}', 'x'))
    assert.matches('a place that is not that of its shape', -- and reaches into the next one
      lie('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,2]},'
        .. '"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', 'xy'))
    assert.matches('a gap or an overlap',
      lie('{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', 'xy'))
    local two = '{"a":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]},'
      .. '"b":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}}'
    assert.matches('a gap or an overlap before "b"', lie(two:format(2, 0, 2, 2, 1, 3), 'xyz'))
    assert.matches('a gap or an overlap before "b"', lie(two:format(2, 0, 2, 1, 3, 4), 'wxyz'))
    assert.matches('a gap or an overlap before "[ab]"', lie(two:format(2, 0, 2, 2, 0, 2), 'xy'))
    assert.matches('a gap or an overlap before "a"', lie(two:format(1, 1, 2, 3, 0, 3), 'xyz'))
    assert.matches('a size that is none',
      lie('{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}', 'x'))
    assert.matches('is cut off', lie(
      '{"a":{"dtype":"F64","shape":[1099511627776],"data_offsets":[0,8796093022208]}}', 'x'))
    write('\255\255\255\255\255\255\255\127' .. ('x'):rep(20))
    assert.matches('is no safetensors file', message(ridge.load, path))
  end)

  it('of any bytes is a tensor or a sentence', function()
    ridge.save(path, { a = ridge.randn(3), b = ridge.ones(1) })
    local whole = read(path)
    math.randomseed(3)
    for _ = 1, 2000 do
      local bytes = { whole:byte(1, -1) }
      for _ = 1, math.random(1, 3) do bytes[math.random(#bytes)] = math.random(0, 255) end
      for i, b in ipairs(bytes) do bytes[i] = string.char(b) end
      write(table.concat(bytes))
      local ok, err = pcall(ridge.load, path)
      assert.is_true(ok or blame.is_error(err), tostring(err))
    end
  end)

  it('of several pieces comes back, whatever its strides', function()
    local given = { turned = ridge.randn(3000, 2000):t(), row = ridge.rand(2 ^ 22 + 3),
      rows = ridge.randint(0, 100, 3, 2 ^ 21 + 1), part = ridge.rand(3000, 3000):narrow(2, 5, 2500),
      repeated = ridge.rand(1, 7):expand(2 ^ 20, 7) }
    ridge.save(path, given)
    local found = ridge.load(path)
    for name, x in pairs(given) do
      assert.equal(x:describe(), found[name]:describe())
      assert.is_true(found[name]:equal(x), name)
    end
  end)

  -- Neither a string nor an array of LuaJIT's can be as long as these.
  it('of 2^31 bytes is written until the system refuses it', function()
    local text, status = folders.run(("trap '' XFSZ; ulimit -f 200; ./ridge -e "
      .. "'ridge.memory.set_limit(2^28) ridge.save(\"%s\", {a = ridge.ones(1):expand(2^31)})'")
      :format(path))
    assert.equal(1, status)
    assert.matches('x.safetensors cannot be written: File too large', text)
    assert.equal('', folders.list(folder))
  end)

  it('of 2^31 bytes is read until there is no memory, which is said', function()
    local header = '{"a":{"dtype":"U8","shape":[2147483657],"data_offsets":[0,2147483657]}}'
    local file = assert(io.open(path, 'wb')) -- its elements are a hole in the file
    file:write(string.char(#header, 0, 0, 0, 0, 0, 0, 0), header)
    file:seek('cur', 2147483656)
    file:write '\7'
    file:close()
    ridge.memory.set_limit(2 ^ 30)
    local ok, e = pcall(ridge.load, path)
    ridge.memory.set_limit(0)
    assert.is_false(ok)
    assert.equal('ENOMEM', e.code)
    assert.matches('^load: .*limit of 1024 MB', e.message)
  end)

  it('that cannot be written leaves what was there', function()
    ridge.save(path, { a = ridge.ones(1) })
    local before = read(path)
    assert.matches('No such file', message(ridge.save, folder .. '/none/x', { a = ridge.ones(1) }))
    assert.matches('a tensor is expected', message(ridge.save, path, { a = 3 }))
    assert.matches('notes are texts', message(ridge.save, path, {}, { a = 3 }))
    assert.matches("notes are texts by name, got 'me'", message(ridge.save, path, {}, 'me'))
    local text, status = folders.run(("trap '' XFSZ; ulimit -f 20; ./ridge -e "
      .. "'ridge.save(\"%s\", {a = ridge.ones(100000)})'"):format(path))
    assert.equal(1, status)
    assert.matches('cannot be written', text)
    assert.equal(before, read(path))
    assert.equal('x.safetensors', folders.list(folder))
  end)

  it('takes notes of an index from the first of its files that has them', function()
    ridge.save(folder .. '/1.safetensors', { a = ridge.ones(1) }, { who = 'first', one = '1' })
    ridge.save(folder .. '/2.safetensors', { b = ridge.ones(1) }, { who = 'second', two = '2' })
    local index = folder .. '/model.safetensors.index.json'
    folders.put(index, '{"weight_map":{"b":"2.safetensors","a":"1.safetensors"}}')
    local _, notes = ridge.load(index)
    assert.same({ who = 'first', one = '1', two = '2' }, notes)
  end)
end)
