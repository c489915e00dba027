-- SPDX-License-Identifier: MIT
-- IDX files: whole ones, packed ones, and every way in which one can be damaged.
local ridge = require 'ridge'
local folders = dofile 'tests/lua/store/folder.lua'

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

-- An IDX file of bytes: sizes, then 0, 1, 2 ...
local function idx(kind, sizes, elements)
  local parts = { string.char(0, 0, kind, #sizes) }
  for _, n in ipairs(sizes) do
    parts[#parts + 1] = string.char(math.floor(n / 2 ^ 24) % 256, math.floor(n / 2 ^ 16) % 256,
      math.floor(n / 256) % 256, n % 256)
  end
  return table.concat(parts) .. elements
end

describe('an IDX file', function()
  local folder, path

  before_each(function()
    folder = folders.new()
    path = folder .. '/x.idx'
  end)
  after_each(function() folders.remove(folder) end)

  local function write(text)
    local file = assert(io.open(path, 'wb'))
    file:write(text)
    file:close()
  end
  local function read() return ridge.data.idx(path) end

  it('is a tensor of its type, with big-endian numbers byte-swapped', function()
    write(idx(0x08, { 2, 3 }, '\0\1\2\253\254\255'))
    assert.equal('u8', read().dtype)
    assert.same({ { 0, 1, 2 }, { 253, 254, 255 } }, read():tolist())
    write(idx(0x09, { 2 }, '\1\255'))
    assert.same({ 1, -1 }, read():tolist())
    write(idx(0x0C, { 2 }, '\0\0\1\2\255\255\255\254'))
    assert.same({ 258, -2 }, read():tolist())
    write(idx(0x0D, { 1 }, '\63\192\0\0'))
    assert.equal(1.5, read():item())
    write(idx(0x0E, { 1 }, '\192\4\0\0\0\0\0\0'))
    assert.equal(-2.5, read():item())
    write(idx(0x08, { 0, 4 }, ''))
    assert.same({ 0, 4 }, read():size())
  end)

  it('may be packed by gzip', function()
    write(idx(0x08, { 300, 300 }, ('\7\8\9'):rep(30000)))
    folders.run('gzip -k ' .. path)
    assert.is_true(ridge.data.idx(path .. '.gz'):equal(read()))
    folders.run(('head -c 60 %s.gz > %s'):format(path, path))
    assert.matches('is cut off', message(read))
    folders.run(('head -c -1 %s.gz > %s'):format(path, path)) -- all elements, and not their sum
    assert.matches('is cut off', message(read))
    folders.run(('head -c -8 %s.gz > %s; printf 12345678 >> %s'):format(path, path, path))
    assert.matches('is damaged: ', message(read))
  end)

  it('is refused when it is damaged, and says how', function()
    local whole = idx(0x08, { 2, 3 }, 'abcdef')
    for n = 0, #whole - 1 do
      write(whole:sub(1, n))
      assert.matches('is cut off', message(read))
    end
    write(whole .. 'g')
    assert.matches('goes on behind its 6 elements', message(read))
    write('\1' .. whole:sub(2))
    assert.matches('begins with 01 00, not with 00 00', message(read))
    write(idx(0x0B, { 1 }, 'ab'))
    assert.matches('elements of type 0b', message(read))
    write(idx(0x08, {}, ''))
    assert.matches('0 axes', message(read))
    -- sizes that no memory holds take none
    write(idx(0x08, { 2 ^ 31, 2 ^ 31 }, 'a'))
    assert.matches('says that it holds 2147483648 x 2147483648', message(read))
    write(idx(0x08, { 2 ^ 30 }, 'a'))
    local before = ridge.memory.stats().reserved_bytes
    assert.matches('1 of 1073741824 bytes are there', message(read))
    assert.equal(before, ridge.memory.stats().reserved_bytes)
    assert.matches('is no file', message(ridge.data.idx, folder))
    assert.matches('No such file', message(ridge.data.idx, folder .. '/none'))
  end)

  it('of any bytes gives a tensor or one sentence', function()
    math.randomseed(5)
    for _ = 1, 3000 do
      local bytes = { '\0\0' }
      for i = 2, math.random(1, 40) do
        bytes[i] = string.char(math.random(0, math.random() < 0.7 and 4 or 255))
      end
      if math.random() < 0.2 then bytes[1] = '\31\139' end
      write(table.concat(bytes))
      local ok, err = pcall(read)
      assert.is_true(ok or require('ridge.blame').is_error(err), tostring(err))
    end
  end)
end)

describe('a folder of MNIST', function()
  local folder

  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  local function file(name, text)
    local f = assert(io.open(folder .. '/' .. name, 'wb'))
    f:write(text)
    f:close()
  end

  it('is four files that belong together', function()
    file('train-images-idx3-ubyte', idx(0x08, { 2, 2, 2 }, 'abcdefgh'))
    file('train-labels-idx1-ubyte', idx(0x08, { 2 }, '\3\4'))
    file('t10k-images-idx3-ubyte', idx(0x08, { 1, 2, 2 }, 'abcd'))
    assert.matches('there is no t10k%-labels%-idx1%-ubyte', message(ridge.data.mnist, folder))
    file('t10k-labels-idx1-ubyte', idx(0x08, { 1 }, '\5'))
    local sets = ridge.data.mnist(folder)
    assert.same({ 2, 2, 2 }, sets.train.images:size())
    assert.same({ 5 }, sets.test.labels:tolist())
    file('t10k-labels-idx1-ubyte', idx(0x08, { 2 }, '\5\6'))
    assert.matches('do not belong together', message(ridge.data.mnist, folder))
  end)

  -- A wait for whoever writes a FIFO ends as if there were no file: the next name is not tried.
  it('is not looked for behind Ctrl-C, nor is one of CIFAR', function()
    local C = require 'ridge.ffi.lib'
    for name, read in pairs { mnist = ridge.data.mnist, cifar = ridge.data.cifar } do
      C.rg_interrupt_set()
      local ok, err = pcall(read, folder)
      C.rg_interrupt_clear()
      assert.is_false(ok)
      assert.same({ 'EINTR', 'data.' .. name .. ': interrupted' }, { err.code, err.message })
    end
  end)
end)
