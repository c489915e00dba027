-- SPDX-License-Identifier: MIT
-- Files of tensors that are damaged, or made to do harm: one sentence with the file's name, no
-- crash, and no more memory than the file could need.  RIDGE_SOAK=N tries N times as many damages.
local ridge = require 'ridge'
local blame = require 'ridge.blame'
local ffi = require 'ffi'
local folders = dofile 'tests/lua/store/folder.lua'

local SOAK = tonumber(os.getenv 'RIDGE_SOAK') or 1
local SEED = tonumber(os.getenv 'RIDGE_SEED') or 1

local folder = folders.in_memory()
local path = folder .. '/x.safetensors'

local function put(text, at) folders.put(at or path, text) end

local function get(at) return folders.get(at or path) end

-- A file with a header and elements.
local function with(header, data)
  local n, length = #header, {}
  for i = 1, 8 do length[i], n = string.char(n % 256), math.floor(n / 256) end
  return table.concat(length) .. header .. (data or '')
end

local CODES = { EFORMAT = true, EDTYPE = true, EIO = true, ESHAPE = true, ENOMEM = true }

-- What is said of a file, loaded in every way and looked at; nil where it is read.
local function said(text, at)
  if text then put(text, at) end
  local stderr = io.stderr
  io.stderr = { write = function() end } -- luacheck: ignore 122
  local ok, err = pcall(function()
    for _, opts in ipairs { {}, { lazy = true, over = 0 }, { map = true, over = 0 } } do
      for _, x in pairs(ridge.load(at or path, opts)) do x:clone() end
    end
    ridge.peek(at or path)
  end)
  io.stderr = stderr -- luacheck: ignore 122
  if ok then return nil end
  if not blame.is_error(err) then error('an error of Lua itself: ' .. tostring(err), 0) end
  local sentence = tostring(err.message)
  if not (sentence:find(folder, 1, true) and CODES[err.code]) or sentence:find '\n' then
    error(tostring(err.code) .. ': ' .. sentence, 0)
  end
  return sentence
end

local function refused(pattern, text)
  local sentence = said(text)
  assert.is_string(sentence, 'read, and should be refused: ' .. pattern)
  assert.matches(pattern, sentence)
end

local function sample()
  ridge.save(path, { a = ridge.randn(3), ['b "\\\n'] = ridge.ones(2, 2):to 'i64',
    c = ridge.zeros(0, 3), d = ridge.full(2.5) }, { who = 'ü', n = '{}' })
  return get()
end

-- Damages of a text: bytes of it, bits, and pieces of JSON put over what was there.
local PIECES = { '"', '{', '}', '[', ']', ',', ':', '-1', '1e9', '\\u', '\\ud800', 'null', '0', '9',
  '99999999999999999999', '"a"', 'I16', '"__metadata__"' }

local function damage(text)
  local bytes = ffi.new('uint8_t[?]', #text)
  ffi.copy(bytes, text, #text)
  for _ = 1, math.random(3) do
    local at, how = math.random(#text) - 1, math.random(3)
    if how == 1 then
      bytes[at] = bit.bxor(bytes[at], bit.lshift(1, math.random(0, 7)))
    elseif how == 2 then
      bytes[at] = math.random(0, 255)
    else
      local piece = PIECES[math.random(#PIECES)]
      ffi.copy(bytes + at, piece, math.min(#piece, #text - at))
    end
  end
  return ffi.string(bytes, #text)
end

describe('a damaged file of tensors', function()
  teardown(function() folders.remove(folder) end)

  it('may end anywhere', function()
    local text = sample()
    for n = 0, #text - 1 do refused('is cut off', text:sub(1, n)) end
    assert.is_nil(said(text))
    refused('has 1 bytes behind its last tensor', text .. '\0')
  end)

  it('may have any bits', function()
    local text = sample()
    local n = text:byte(1) + 256 * text:byte(2)
    math.randomseed(SEED)
    for i = 1, 600 * SOAK do
      -- mostly in the header
      local damaged = math.random(8) == 1 and damage(text)
        or text:sub(1, 8) .. damage(text:sub(9, 8 + n)) .. text:sub(9 + n)
      local ok, err = pcall(said, damaged)
      assert.is_true(ok, ('seed %d, damage %d: %s'):format(SEED, i, tostring(err)))
    end
  end)

  it('is empty, a folder, a FIFO, or not there', function()
    refused('is cut off', '')
    os.execute(("mkdir '%s/folder'; mkfifo '%s/fifo'"):format(folder, folder))
    assert.matches('is no file', said(nil, folder .. '/folder'))
    assert.matches('No such file', said(nil, folder .. '/nothing'))
  end)

  it('has JSON that is none', function()
    local one = '{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
    for text, words in pairs {
      ['{"a":' .. one .. ',}'] = 'byte 54: no text', ['{"a" ' .. one .. '}'] = 'no : behind a name',
      ['{"a":' .. one] = 'neither , nor }', ['{"a":' .. one .. '}x'] = 'more behind the end',
      ['{"a\1":' .. one .. '}'] = 'a control character', ['{"\255":' .. one .. '}'] = 'not UTF%-8',
      ['{"\192\128":' .. one .. '}'] = 'not UTF%-8', ['{"\\q":' .. one .. '}'] = 'a backslash',
      ['{"\\ud800":' .. one .. '}'] = 'half of a pair', ['{"\\udc00":1}'] = 'half of a pair',
      ['{"\\u12g4":1}'] = 'without four digits', ['{"a":{"x":01}}'] = 'no number',
      ['{"a":{"x":1.}}'] = 'no number', ['{"a":{"x":tru}}'] = 'no number',
      ['{"a":{"x":[1 2]}}'] = 'neither , nor %]', ['{"a'] = 'a text without an end',
      ['{"a":{"x":' .. ('['):rep(60000)] = 'more than 100 lists',
      [('{"a":'):rep(60000)] = 'more than 100 lists',
    } do
      refused('header is no JSON %(byte %d+: .*' .. words:gsub('^byte %d+: ', ''), with(text, 'x'))
    end
    assert.matches('byte 54', said(with('{"a":' .. one .. ',}', 'x')))
    -- what means nothing to the format is passed over, 100 deep
    assert.is_nil(said(with('{"a":{"x":' .. ('['):rep(100) .. (']'):rep(100) .. ',' .. one:sub(2)
      .. '}', 'x')))
    put(with('{"\\u0061\\ud83d\\ude00\\u0000":' .. one .. '}', 'x'))
    assert.equal(120, ridge.load(path)['a😀\0']:item())
  end)

  it('says things twice', function()
    local function entry(at) return ('{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}')
      :format(at, at + 1) end
    refused('has "a" twice', with('{"a":' .. entry(0) .. ',"a":' .. entry(1) .. '}', 'xy'))
    refused('has "a" twice', with('{"a":' .. entry(0) .. ',"\\u0061":' .. entry(1) .. '}', 'xy'))
    refused('has "n" twice', with('{"__metadata__":{"n":"1","n":"2"}}'))
    refused('"__metadata__" twice', with('{"__metadata__":{},"__metadata__":{}}'))
    refused('says the type of "a" twice', with('{"a":{"dtype":"U8","dtype":"U8"}}'))
    refused('says the place of "a" twice',
      with('{"a":{"data_offsets":[0,1],"data_offsets":[0,1]}}'))
  end)

  it('has sizes that cannot be', function()
    local function sizes(shape, first, last)
      return with(('{"a":{"dtype":"F32","shape":[%s],"data_offsets":[%s,%s]}}'):format(shape, first,
        last), 'xxxx')
    end
    assert.is_nil(said(sizes('1', '0', '4')))
    refused('a size that is none', sizes('-1', '0', '4'))
    refused('a size that is none', sizes('1.5', '0', '4'))
    refused('a size that is none', sizes('99999999999999999999', '0', '4'))
    refused('that is not that of its shape', sizes('4294967296,4294967296,4294967296', '0', '4'))
    refused('that is not that of its shape', sizes('1', '4', '0'))
    refused('that is not that of its shape', sizes('1', '0', '4,4'))
    refused('that is not that of its shape', sizes('4611686018427387904', '0', '0'))
    -- bits that wrap around to those of the place
    for text, bytes in pairs { ['288230376151711744'] = 0, ['288230376151711745'] = 8 } do
      refused('that is not that of its shape', with(('{"a":{"dtype":"F64","shape":[%s],'
        .. '"data_offsets":[0,%d]}}'):format(text, bytes), ('x'):rep(bytes)))
    end
    refused('a gap or an overlap', sizes('1', '9223372036854775803', '9223372036854775807'))
    refused('that is not that of its shape', sizes('2305843009213693951', '0',
      '9223372036854775804'))
    refused('is cut off: 4 of 4294967296 bytes', sizes('1073741824', '0', '4294967296'))
    refused('9 axes', sizes('1,1,1,1,1,1,1,1,1', '0', '4'))
  end)

  it('has truths that are none, whenever they are read', function()
    local text = with('{"a":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}}', '\0\1\2\1')
    refused('element 3 is 2, and a bool is 0 or 1', text)
    for _, opts in ipairs { { lazy = true, over = 0 }, { map = true, over = 0 } } do
      local x = ridge.load(path, opts).a
      assert.matches('element 3 is 2', tostring(select(2, pcall(x.clone, x))))
    end
    put((text:gsub('\2\1$', '\0\1')))
    assert.same({ false, true, false, true }, ridge.load(path, { map = true, over = 0 }).a:tolist())
  end)

  it('names tensors that would move a terminal, which are said without', function()
    local sentence = said(with '{"\\u001b[2Ja":3}')
    assert.matches('under "%?%[2Ja"', sentence)
    assert.matches('under "' .. ('x'):rep(57) .. '%.%.%."$', said(with('{"' .. ('x'):rep(5000)
      .. '":3}')))
  end)
end)

describe('an index of files', function()
  local index = path .. '.index.json'

  setup(function()
    os.execute('mkdir ' .. folder)
    ridge.save(folder .. '/one.safetensors', { a = ridge.ones(2), b = ridge.zeros(2, 2) },
      { who = 'me' })
    ridge.save(folder .. '/two.safetensors', { c = ridge.full(3, 3), extra = ridge.ones(1) })
  end)

  teardown(function() folders.remove(folder) end)

  local function map(text) return '{"metadata":{"total_size":28},"weight_map":{' .. text .. '}}' end

  local function refused_index(pattern, text)
    put(text, index)
    local ok, err = pcall(ridge.load, index)
    assert.is_false(ok, 'read, and should be refused: ' .. pattern)
    assert.matches(pattern, tostring(err.message))
  end

  it('is left where Ctrl-C comes between two of its files', function()
    local C, safetensors = require 'ridge.ffi.lib', require 'ridge.data.safetensors'
    put(map '"a":"one.safetensors","c":"two.safetensors","b":"one.safetensors"', index)
    local read, begun = safetensors.read, 0
    safetensors.read = function(...)
      begun = begun + 1
      local entries, notes = read(...)
      C.rg_interrupt_set()
      return entries, notes
    end
    local ok, err = pcall(ridge.load, index)
    safetensors.read = read
    C.rg_interrupt_clear()
    assert.is_false(ok)
    assert.equal('EINTR', err.code)
    assert.matches('load: interrupted', err.message) -- without a look at the second file
    assert.equal(1, begun)
  end)

  it('is left where Ctrl-C comes between two tensors of a file', function()
    local C, safetensors = require 'ridge.ffi.lib', require 'ridge.data.safetensors'
    local entries = safetensors.read(folder .. '/one.safetensors', 'load')
    for _, name in ipairs { 'NOW', 'LATER', 'MAPPED' } do
      local how = C['RG_SAFETENSORS_' .. name]
      C.rg_interrupt_set()
      local ok, err = pcall(safetensors.tensor, entries[1], how, 'load')
      C.rg_interrupt_clear()
      assert.is_false(ok)
      assert.same({ 'EINTR', 'load: interrupted' }, { err.code, err.message })
      assert.is_true(ridge.is_tensor(safetensors.tensor(entries[1], how, 'load')))
    end
  end)

  it('pays what is owed before a tensor is made', function()
    local C, safetensors = require 'ridge.ffi.lib', require 'ridge.data.safetensors'
    local mem = C.rg_memory_of(0)
    local entries = safetensors.read(folder .. '/one.safetensors', 'load')
    for _, name in ipairs { 'NOW', 'LATER', 'MAPPED' } do
      mem.debt_bytes = 2 ^ 31
      safetensors.tensor(entries[1], C['RG_SAFETENSORS_' .. name], 'load')
      assert.is_true(tonumber(mem.debt_bytes) < 2 ^ 20, name)
    end
  end)

  it('is all that it names, at once and later', function()
    put(map '"a":"one.safetensors","c":"two.safetensors","b":"one.safetensors"', index)
    for _, opts in ipairs { {}, { lazy = true, over = 0 }, { map = true, over = 0 } } do
      local written = {}
      local stderr = io.stderr
      local note = { write = function(_, text) written[#written + 1] = text end }
      io.stderr = note -- luacheck: ignore 122
      local ok, found, notes, left_out = pcall(ridge.load, index, opts)
      io.stderr = stderr -- luacheck: ignore 122
      assert.is_true(ok, tostring(found))
      assert.same({ 0, 0, 0, 0 }, found.b:reshape(-1):tolist())
      assert.same({ 3, 3, 3 }, found.c:tolist())
      assert.equal(2, found.a:sum():item())
      assert.same({ who = 'me' }, notes)
      assert.is_nil(found.extra)
      assert.same({ extra = 'not in the index' }, left_out)
      assert.matches('left out of [^,:]*: extra %(not in the index%)$', table.concat(written))
    end
  end)

  it('that names no files is refused', function()
    refused_index('says of "c" no file that it is in', map '"a":"one.safetensors","c":5')
    refused_index('says of "c" no file that it is in', map '"c":["two.safetensors"]')
    refused_index('has a weight_map that is no object', '{"weight_map":["one.safetensors"]}')
  end)

  it('that leads elsewhere is refused', function()
    refused_index("'../one.safetensors', which is no file beside it",
      map '"a":"../one.safetensors"')
    refused_index('which is no file beside it', map '"a":"/etc/passwd"')
    refused_index('which is no file beside it', map '"a":".."')
    refused_index('which is no file beside it', map '"a":""')
    refused_index('which is no file beside it', map '"a":"one\\u0000"')
    refused_index("says that 'z' is in one.safetensors, where it is not",
      map '"a":"one.safetensors","z":"one.safetensors"')
    refused_index('No such file', map '"a":"three.safetensors"')
    refused_index('has "a" twice', map '"a":"one.safetensors","a":"two.safetensors"')
    refused_index('but no index of safetensors files', '{"weights":{}}')
    refused_index('it is no JSON %(byte 24: no text', '{"weight_map":{"a":"x",}')
    refused_index('has "weight_map" twice', '{"weight_map":{},"weight_map":{}}')
    put(map '"a":"index.json"', folder .. '/index.json') -- itself
    refused_index('is no safetensors file', map '"a":"index.json"')
  end)
end)
