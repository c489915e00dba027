-- SPDX-License-Identifier: MIT
-- Event files byte by byte: records with their checksums, messages, and what a full disk leaves.

local ffi = require 'ffi'
local ridge = require 'ridge'
local crc32c = require 'ridge.tensorboard.crc32c'
local pb = require 'ridge.tensorboard.protobuf'
local read = dofile 'tests/lua/tensorboard/read.lua'
local tensorboard = require 'ridge.tensorboard'

local folder

before_each(function()
  folder = os.tmpname()
  os.remove(folder)
end)
after_each(function() os.execute('rm -rf ' .. folder) end)

local function written(f)
  local w = ridge.tensorboard(folder)
  f(w)
  w:close()
  return read.values(w.path)
end

it('a file that is closed is written by nobody, at once', function()
  local files = require 'ridge.tensorboard.file'
  local w = ridge.tensorboard(folder)
  w:scalar('loss', 1, 1)
  w:flush()
  assert.is_true(files.is_written(w.path))
  collectgarbage 'stop' -- which would let the lock go by itself
  local ok, err = pcall(w.close, w)
  local after = files.is_written(w.path)
  collectgarbage 'restart'
  assert.is_true(ok, tostring(err))
  assert.is_false(after)
end)

it('the newest file of a folder is found among others', function()
  local find = require('ridge.tensorboard.read').find
  assert.is_nil(find(folder))
  os.execute('mkdir ' .. folder)
  assert.is_nil(find(folder))
  for _, name in ipairs { 'events.out.tfevents.2.a', 'events.out.tfevents.1.a', 'zz.txt',
    'a.txt' } do
    assert(io.open(folder .. '/' .. name, 'w')):close()
  end
  local newest = folder .. '/events.out.tfevents.2.a'
  assert.equal(newest, find(folder))
  assert.equal(newest, find(folder .. '/'))
  assert.equal(folder .. '/events.out.tfevents.1.a', find(folder .. '/events.out.tfevents.1.a'))
end)

it('the newest of files that were begun within a second is the last one', function()
  local find = require('ridge.tensorboard.read').find
  os.execute('mkdir ' .. folder)
  local begun = {}
  for i = 1, 12 do -- the tenth by its number, not by its letters
    begun[i] = ('%s/events.out.tfevents.1700000000.ridge.99.%d'):format(folder, i)
    assert(io.open(begun[i], 'w')):close()
    assert.equal(begun[i], find(folder))
  end
  for _, later in ipairs { '1700000000.ridge.100.1', '1700000001.host', '1700000001.host.7',
    '01700000002' } do
    later = folder .. '/events.out.tfevents.' .. later
    assert(io.open(later, 'w')):close()
    assert.equal(later, find(folder))
  end
end)

describe('CRC-32C', function()
  it('is that of RFC 3720, B.4', function()
    assert.equal(0xe3069283, crc32c.of '123456789')
    assert.equal(0x8a9136aa, crc32c.of(('\0'):rep(32)))
    assert.equal(0x62a8ab43, crc32c.of(('\255'):rep(32)))
    local rising = {}
    for i = 0, 31 do rising[i + 1] = string.char(i) end
    assert.equal(0x46dd794e, crc32c.of(table.concat(rising)))
    assert.equal(0, crc32c.of '')
  end)

  it('is what dividing bit by bit gives, of any bytes', function()
    math.randomseed(3)
    for n = 0, 70 do
      local bytes = {}
      for i = 1, n do bytes[i] = string.char(math.random(0, 255)) end
      local text = table.concat(bytes)
      assert.equal(read.crc32c(text), crc32c.of(text))
    end
  end)
end)

describe('a protocol buffer', function()
  it('has the bytes of the documentation', function()
    assert.equal('\8\150\1', pb.int(1, 150))
    assert.equal('\18\7testing', pb.bytes(2, 'testing'))
    assert.equal('\8\1\16\0', pb.int(1, true) .. pb.int(2, false))
    assert.equal('\8' .. ('\255'):rep(9) .. '\1', pb.int(1, -1))
    assert.equal('\17\0\0\0\0\0\0\240\63', pb.double(2, 1))
    assert.equal('\29\0\0\32\193', pb.float(3, -10))
    assert.equal('', pb.int(1, nil) .. pb.double(1, nil) .. pb.bytes(1, nil) .. pb.doubles(1, {}))
  end)

  it('is read back by another implementation', function()
    for _, n in ipairs { 0, 1, 127, 128, 300, 2 ^ 31, 2 ^ 32 + 5, 2 ^ 53, -2, -2 ^ 40 } do
      assert.equal(n, read.fields(pb.int(9, n))[9][1])
    end
    for _, x in ipairs { 0, 1.5, -1e300, 5e-324, 1 / 0, -1 / 0 } do
      assert.equal(x, read.fields(pb.double(1, x))[1][1])
    end
    local list = { 1, -0.5, 1e-7 }
    assert.same(list, read.doubles(read.fields(pb.doubles(3, list))[3][1]))
  end)
end)

describe('an event file', function()
  it('holds scalars with their steps and times', function()
    local list = written(function(w)
      w:scalar('loss', 0.5):scalar('loss', 0.25):scalar('loss', 1 / 0, -7, 12.5)
      w:scalar('loss', 3):scalar('other', 0 / 0, 2 ^ 40)
    end)
    assert.equal(5, #list)
    assert.same({ 'loss', 0, 0.5 }, { list[1].tag, list[1].step, list[1].fields[2][1] })
    assert.same({ 'loss', 1, 0.25 }, { list[2].tag, list[2].step, list[2].fields[2][1] })
    assert.same({ -7, 12.5, 1 / 0 }, { list[3].step, list[3].at, list[3].fields[2][1] })
    assert.equal(-6, list[4].step)
    assert.equal(2 ^ 40, list[5].step)
    assert.is_true(list[5].fields[2][1] ~= list[5].fields[2][1])
    assert.is_true(math.abs(list[1].at - os.time()) < 60)
  end)

  it('is complete after each call', function()
    local w = ridge.tensorboard(folder)
    w:scalar('a', 1)
    assert.equal(1, #read.values(w.path))
    w:scalar('a', 2)
    assert.equal(2, #read.values(w.path))
    local other = ridge.tensorboard(folder)
    assert.is_not.equal(w.path, other.path)
    assert.matches('^events%.out%.tfevents%.%d+%.', w.path:match '[^/]+$')
  end)

  it('holds histograms whose buckets have all numbers', function()
    local x = ridge.randn(500)
    local list = written(function(w)
      w:histogram('x', x, 3)
      w:histogram('few', { -2, -2, 0, 1e-15, 5, 1 / 0, 0 / 0, -1 / 0 }, 4)
    end)
    local h = read.fields(list[1].fields[5][1])
    local limits, counts, sum = read.doubles(h[6][1]), read.doubles(h[7][1]), 0
    for i, n in ipairs(counts) do
      sum = sum + n
      assert.is_true(n > 0 and (i == 1 or limits[i] > limits[i - 1]))
    end
    assert.same({ 500, 500 }, { sum, h[3][1] })
    assert.near(x:sum():item(), h[4][1], 1e-3)
    assert.near((x * x):sum():item(), h[5][1], 1e-3)
    assert.equal(x:min():item(), h[1][1])
    assert.is_true(limits[#limits] >= h[2][1] and limits[1] >= h[1][1])
    h = read.fields(list[2].fields[5][1])
    assert.same({ -2, 5, 5 }, { h[1][1], h[2][1], h[3][1] })
    assert.near(1, h[4][1], 1e-12)
    assert.near(33, h[5][1], 1e-12)
    limits, counts = read.doubles(h[6][1]), read.doubles(h[7][1])
    assert.same({ 2, 2, 1 }, counts)
    assert.is_true(limits[1] >= -2 and limits[1] < -1.8 and limits[3] >= 5 and limits[3] < 5.6)
    assert.same({ 'few/not_finite', 4, 3 }, { list[3].tag, list[3].step, list[3].fields[2][1] })
  end)

  it('says of a single one too that it is not finite, and of none nothing', function()
    local tags = {}
    for i, value in ipairs(written(function(w)
      w:histogram('one', { 1, 0 / 0 }, 1)
      w:histogram('none', { 1, 2 }, 1)
    end)) do tags[i] = value.tag end
    assert.same({ 'one', 'one/not_finite', 'none' }, tags)
  end)

  it('has each number in the bucket below whose end it lies', function()
    for _, x in ipairs { 1e-12, 1.1e-12, 1, 1.1, -1, -1e-12, 1e30, -1e30, 1e-13, -1e-13, 0 } do
      local h = tensorboard.buckets { x }
      assert.is_true(x < h.limits[1], x)
      if math.abs(x) > 2e-12 then
        assert.is_true(math.abs(x - h.limits[1]) <= 0.22 * math.abs(x), x)
      end
    end
    for _, x in ipairs { 1.7e308, 1.7976931348623157e308 } do -- no end is infinite
      assert.is_true(tensorboard.buckets({ x }).limits[1] < math.huge, x)
      local below = tensorboard.buckets({ -x }).limits[1]
      assert.is_true(below > -x and below < -0.8 * x, -x)
    end
    for k = 0, 300 do -- an end is the next bucket's
      local x = -1e-12 * 1.1 ^ k
      local limit = tensorboard.buckets({ x }).limits[1]
      assert.is_true(limit > x and (k == 0 or limit < 0), x)
    end
  end)

  it('has UTF-8 for every text, whatever it is called: readers refuse a file for one that is none',
    function()
      local sign = '\239\191\189' -- of what is unknown
      local bad, good = 'a\255\237\160\128b', 'a' .. sign:rep(4) .. 'b'
      local w = ridge.tensorboard(folder)
      w:scalar(bad, 1):histogram(bad, { 1 }):hparams({ [bad] = bad }, bad)
      w:experiment({ [bad] = { bad } }, { bad })
      w:scalar('é', 2)
      w:close()
      local list = read.values(w.path)
      assert.equal(good, list[1].tag)
      assert.equal(good, list[2].tag)
      assert.equal('é', list[#list].tag)
      local file = assert(io.open(w.path, 'rb'))
      local bytes = file:read '*a'
      file:close()
      assert.is_nil(bytes:find(bad, 1, true))
      local _, n = bytes:gsub(good, '')
      assert.equal(8, n)
    end)

  it('holds pictures of figures, files and bytes', function()
    local figure = ridge.plot.draw('training', { { loss = 1, seconds = 1, point = 'a' },
      { loss = 0.5, seconds = 2, point = 'a' } }, {})
    local path = folder .. '.png'
    figure:save(path, { scale = 1 })
    local list = written(function(w)
      w:image('figure', figure, 1):image('file', path, 2)
      local file = assert(io.open(path, 'rb'))
      w:image('bytes', file:read '*a', 3)
      file:close()
    end)
    os.remove(path)
    local image = read.fields(list[1].fields[4][1])
    assert.same({ 1280, 2160 }, { image[1][1], image[2][1] })
    image = read.fields(list[2].fields[4][1])
    assert.same({ 640, 1080 }, { image[1][1], image[2][1] })
    assert.equal('\137PNG\r\n\26\n', image[4][1]:sub(1, 8))
    assert.equal(image[4][1], read.fields(list[3].fields[4][1])[4][1])
  end)

  it('reads the size of a picture from all of its bytes', function()
    local head = '\137PNG\r\n\26\n\0\0\0\13IHDR\1\2\3\4\5\6\7\8'
    local list = written(function(w) w:image('large', head, 1) end)
    local image = read.fields(list[1].fields[4][1])
    assert.same({ 0x05060708, 0x01020304 }, { image[1][1], image[2][1] })
  end)

  it('holds the parameters of a run', function()
    local list = written(function(w)
      w:hparams({ lr = 0.1, layer = 'dense', bias = false }, 'one', 99)
      w:ended(false)
      w:experiment({ lr = { 0.1, 0.2 }, layer = { 'dense' } }, { 'loss' })
    end)
    local function data(i)
      local plugin = read.fields(read.fields(list[i].fields[9][1])[1][1])
      assert.equal('hparams', plugin[1][1])
      return read.fields(plugin[2][1])
    end
    assert.equal('_hparams_/session_start_info', list[1].tag)
    local start, params = read.fields(data(1)[3][1]), {}
    for _, entry in ipairs(start[1]) do
      local e = read.fields(entry)
      params[e[1][1]] = read.fields(e[2][1])
    end
    assert.same({ lr = { [2] = { 0.1 } }, layer = { [3] = { 'dense' } }, bias = { [4] = { 0 } } },
      params)
    assert.same({ 'one', 99 }, { start[4][1], start[5][1] })
    assert.equal(2, read.fields(data(2)[4][1])[1][1]) -- STATUS_FAILURE
    local experiment = read.fields(data(3)[2][1])
    local first = read.fields(experiment[4][1])
    assert.same({ 'layer', 1 }, { first[1][1], first[4][1] })
    local second = read.fields(experiment[4][2])
    assert.same({ 'lr', 3 }, { second[1][1], second[4][1] })
    assert.equal(2, #read.fields(second[5][1])[1])
    assert.equal('loss', read.fields(read.fields(experiment[5][1])[1][1])[2][1])
  end)

  -- No file may grow beyond so many bytes while f runs: as a full disk, without filling one.
  local function on_full_disk(size, f)
    ffi.cdef [[typedef struct { unsigned long soft, hard; } tb_limit;
      int tb_getrlimit(int, tb_limit *) __asm__("getrlimit");
      int tb_setrlimit(int, const tb_limit *) __asm__("setrlimit");
      void *tb_signal(int, void *) __asm__("signal");]]
    local before, now = ffi.new 'tb_limit', ffi.new 'tb_limit'
    ffi.C.tb_getrlimit(1, before)
    now.soft, now.hard = size, before.hard
    ffi.C.tb_signal(25, ffi.cast('void *', 1)) -- SIGXFSZ ignored: the write fails
    ffi.C.tb_setrlimit(1, now)
    local ok, err = pcall(f)
    ffi.C.tb_setrlimit(1, before)
    ffi.C.tb_signal(25, ffi.cast('void *', 0))
    assert(ok, err)
  end

  it('joins on a full disk no more for each value, however many wait', function()
    local w, joined = ridge.tensorboard(folder), 0
    local concat = table.concat
    on_full_disk(w.file.size + 20, function()
      table.concat = function(...) -- luacheck: ignore 122
        local text = concat(...)
        joined = joined + #text
        return text
      end
      for i = 1, 3000 do pcall(w.scalar, w, 'a', i) end
      table.concat = concat -- luacheck: ignore 122
    end)
    local waits = w.file.n_waiting
    assert.is_true(waits > 100000, waits)
    assert.is_true(joined < 20 * waits, joined / waits)
    local size = w.file.size
    w:flush()
    assert.same({ 0, size + waits }, { w.file.n_waiting, w.file.size })
    local list = read.values(w.path)
    assert.equal(3000, #list)
    for i, v in ipairs(list) do assert.equal(i, v.fields[2][1]) end
    w:close()
  end)

  it('keeps whole records on a full disk, and what is missing for the next try', function()
    local w = ridge.tensorboard(folder)
    w:scalar('a', 1)
    local ok, err, again, other
    on_full_disk(w.file.size + 20, function()
      ok, err = pcall(w.scalar, w, 'a', 2)
      again, other = pcall(w.scalar, w, 'a', 3)
    end)
    assert.is_false(ok)
    assert.equal('EIO', err.code)
    assert.matches('cannot be written: File too large; %d+ bytes wait for the next try',
      err.message)
    assert.is_false(again)
    assert.is_truthy(other)
    assert.equal(1, #read.values(w.path)) -- whole, though the system took a part of a record
    w:scalar('a', 4)
    local list = read.values(w.path)
    local values = {}
    for i, v in ipairs(list) do values[i] = v.fields[2][1] end
    assert.same({ 1, 2, 3, 4 }, values)
    w:close()
  end)

  it('says what cannot be', function()
    local w = ridge.tensorboard(folder)
    local function fails(text, f, ...)
      local ok, err = pcall(f, ...)
      assert.is_false(ok)
      assert.matches(text, tostring(err), 1, true)
    end
    fails("a is a number, got 'x'", w.scalar, w, 'a', 'x')
    fails('the step of a is a whole number, got 0.5', w.scalar, w, 'a', 1, 0.5)
    fails('the step of a is a whole number, got nan', w.scalar, w, 'a', 1, 0 / 0)
    fails('is a finite number, in seconds since 1970', w.scalar, w, 'a', 1, 1, 1 / 0)
    fails('a tag is a text', w.scalar, w, '', 1)
    fails('a tensor or a list of numbers', w.histogram, w, 'h', 3)
    fails('at 2, which is no number', w.histogram, w, 'h', { 1, 'x' })
    fails('a figure, a path of a PNG file', w.image, w, 'i', 'x.jpg')
    fails('cannot read', w.image, w, 'i', folder .. '/none.png')
    fails('a figure, a path of a PNG file', w.image, w, 'i', '\137PNG\r\n\26\n') -- and no more
    fails('a figure, a path of a PNG file', w.image, w, 'i', '\137PNG\r\n\26\n' .. ('x'):rep(40))
    fails('parameter lr is', w.hparams, w, { lr = {} })
    fails('the values of lr are a list', w.experiment, w, { lr = 3 }, {})
    fails('a function is expected, got', w.together, w, 'cpu')
    fails('a folder is expected', ridge.tensorboard, 7)
    fails('cannot make the folder', ridge.tensorboard, '/proc/none/here')
    assert.same({}, read.values(w.path))
    w:close()
    w:close()
    fails('the writer is closed', w.scalar, w, 'a', 1)
  end)
end)

describe('what is written together', function()
  it('is what a function adds, and nothing else is called', function()
    written(function(w)
      assert.error_matches(function() w:together(3) end,
        'writer_spec%.lua:%d+: tensorboard:together: a function is expected, got 3')
    end)
  end)

  it('waits until the function has ended, whether it returns or raises, and no longer', function()
    written(function(w)
      local function values() return #read.values(w.path) end
      w:together(function()
        w:scalar('a', 1):scalar('a', 2)
        assert.equal(0, values())
      end)
      assert.equal(2, values())
      w:scalar('a', 3)
      assert.equal(3, values())
      assert.is_false(pcall(w.together, w, function()
        w:scalar('a', 4)
        error 'on purpose'
      end))
      w:scalar('a', 5)
      assert.equal(5, values())
    end)
  end)
end)
