-- SPDX-License-Identifier: MIT
-- A kernel's parts: signatures, frames, places in texts, connection files, where it is installed.

local canonical = require 'ridge.store.canonical'
local folders = dofile 'tests/lua/store/folder.lua'
local place = require 'ridge.kernel.place'
local wire = require 'ridge.kernel.wire'

describe('messages', function()
  it('are signed by HMAC of SHA-256 (RFC 4231)', function()
    assert.equal('b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7',
      wire.hmac(('\11'):rep(20)) { 'Hi There' })
    assert.equal('5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
      wire.hmac 'Jefe' { 'what do ya', ' want ', 'for nothing?' })
    assert.equal('60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54',
      wire.hmac(('\170'):rep(131)) { 'Test Using Larger Than Block-Size Key - Hash Key First' })
    assert.equal('', wire.hmac '' { 'anything' })
  end)

  it('come back as they were sent, to whom and whose', function()
    local sign = wire.hmac 'k'
    local message = { to = { 'a', '\0b' }, header = wire.header('status', 's', 'k'), parent = '{}',
      metadata = '{"x":1}', content = '{"y":[]}' }
    local frames = wire.frames(message, sign)
    local back, header, content = wire.read(frames, sign)
    assert.same(message, back)
    assert.equal('status', header.msg_type)
    assert.same({}, content.y)
    frames[#frames + 1] = 'a buffer'
    assert.same(message, (wire.read(frames, sign)))
    -- every bit of every part counts
    for i = 4, 8 do
      for at = 1, #frames[i] do
        local changed = { unpack(frames) }
        changed[i] = frames[i]:sub(1, at - 1) .. string.char(bit.bxor(frames[i]:byte(at), 1))
          .. frames[i]:sub(at + 1)
        local none, reason = wire.read(changed, sign)
        assert.is_nil(none)
        assert.equal('a wrong signature', reason)
      end
    end
    assert.not_equal(wire.header('status', 's', 'k'), wire.header('status', 's', 'k'))
    local parts = { '', 'a:b', '\0\n', ('x'):rep(70000) }
    assert.same(parts, wire.unpack(wire.pack(parts)))
  end)
end)

describe('a place in a text', function()
  it('is counted in characters', function()
    assert.equal('é', place.before('é€x', 1))
    assert.equal('é€', place.before('é€x', 2))
    assert.equal('é€x', place.before('é€x', 3))
    assert.equal('é€x', place.before('é€x', 99))
    assert.equal('', place.before('é€x', 0))
    assert.equal('', place.before('é€x', -3))
    assert.equal('', place.before('', 0))
    assert.equal(3, place.characters 'é€x')
  end)

  it('has a name around it, or in front of its open bracket', function()
    assert.equal('ridge.nn.Linear', place.name('x = ridge.nn.Li', 'near(3)'))
    assert.equal('f', place.name('f(1, (2), ', ')'))
    assert.equal('a.b', place.name('g(1) a.b(', ''))
    assert.equal('x', place.name('f(x', ')'))
    assert.is_nil(place.name('f(1) + ', '2)'))
    assert.is_nil(place.name('', ''))
    assert.is_nil(place.name('1 + 2', ''))
  end)
end)

describe('a connection file', function()
  local folder
  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  local function answer(text)
    if text then folders.put(folder .. '/c.json', text) end
    local said, status = folders.run(("./ridge kernel '%s/c.json'"):format(folder))
    assert.equal(1, status)
    return said
  end

  it('that is wrong is said to be', function()
    if not require('ridge.kernel.zmq').found() then return pending 'no libzmq.so.5' end
    assert.matches('ridge kernel: .*c%.json: No such file', answer())
    local good = { key = 'k', shell_port = 1, iopub_port = 2, stdin_port = 3, control_port = 4,
      hb_port = 5 }
    local function changed(name, value)
      local copy = {}
      for key, each in pairs(good) do copy[key] = each end
      copy[name] = value
      return canonical.encode(copy)
    end
    for _, text in ipairs { '', '{', 'null', '3', '\255' } do
      assert.matches('c%.json[ :][^\n]*[nJ][^\n]*\n', answer(text))
    end
    assert.matches('it has no key\n', answer '{}')
    assert.matches('it has no key\n', answer(changed('key', 7)))
    for _, port in ipairs { -1, 65536, 1.5, 'x' } do
      assert.matches('it has no hb_port\n', answer(changed('hb_port', port)))
    end
    assert.matches("signed by 'hmac%-md5'; hmac%-sha256 is known",
      answer(changed('signature_scheme', 'hmac-md5')))
    assert.matches("transport is 'udp'; tcp and ipc are known", answer(changed('transport', 'udp')))
    assert.matches('tcp://999%.1%.1%.1:%d: ', answer(changed('ip', '999.1.1.1')))
    good.ip = folder .. '/none/x'
    assert.matches('ipc://[^\n]*: No such file', answer(changed('transport', 'ipc')))
  end)

  it('needs ZeroMQ, and says so', function()
    folders.put(folder .. '/c.json', canonical.encode { key = 'k', shell_port = 1, iopub_port = 2,
      stdin_port = 3, control_port = 4, hb_port = 5 })
    folders.put(folder .. '/none.lua', ([[
      local ffi = require 'ffi'
      local load = ffi.load
      ffi.load = function(name)
        if name:find 'zmq' then error(name .. ': cannot open shared object file', 0) end
        return load(name)
      end
      require('ridge.kernel').run '%s/c.json']]):format(folder))
    local said, status = folders.run(("./ridge '%s/none.lua'"):format(folder))
    assert.equal(1, status)
    assert.matches('speaks over ZeroMQ, which is not here %(libzmq%.so%.5: cannot open[^\n]*%): '
      .. 'apt%-get install libzmq5', said)
  end)
end)

describe('ridge kernel --install', function()
  local folder
  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  local function run(words, environment)
    return folders.run(("env -u JUPYTER_DATA_DIR HOME='%s/a home' XDG_DATA_HOME= %s ./ridge kernel "
      .. '%s'):format(folder, environment or '', words))
  end

  local function spec(path) return canonical.decode(folders.get(folder .. path)) end

  it('writes what Jupyter reads where it looks, and takes it away again', function()
    local _, status = run '--install'
    assert.equal(0, status)
    local at = '/a home/.local/share/jupyter/kernels/ridge'
    local found = spec(at .. '/kernel.json')
    assert.equal('{connection_file}', found.argv[3])
    assert.equal(0, select(2, folders.run(("'%s' --version"):format(found.argv[1]))))
    assert.same({ 'lua', 'message' }, { found.language, found.interrupt_mode })
    assert.equal(0, select(2, run '--install')) -- once more is the same
    assert.equal(0, select(2, run '--remove'))
    assert.equal('', folders.run(("ls '%s/a home/.local/share/jupyter/kernels'"):format(folder)))
    local said
    said, status = run '--remove'
    assert.equal(1, status)
    assert.matches('kernel%.json is not there', said)

    run('--install --name Mine', ("XDG_DATA_HOME='%s/x'"):format(folder))
    assert.equal('kernel', spec('/x/jupyter/kernels/mine/kernel.json').argv[2])
    run('--install', ("JUPYTER_DATA_DIR='%s/j'"):format(folder))
    assert.equal('kernel', spec('/j/kernels/ridge/kernel.json').argv[2])
    run(("--install --prefix '%s/p/' --program /opt/ridge"):format(folder))
    assert.equal('/opt/ridge', spec('/p/share/jupyter/kernels/ridge/kernel.json').argv[1])
    -- what somebody else put beside it stays
    folders.put(folder .. '/p/share/jupyter/kernels/ridge/logo.png', 'x')
    run(("--remove --prefix '%s/p'"):format(folder))
    assert.equal('logo.png\n', folders.run(("ls '%s/p/share/jupyter/kernels/ridge'")
      :format(folder)))
  end)

  it('refuses what it cannot do, in a sentence', function()
    folders.put(folder .. '/file', '')
    for _, case in ipairs {
      { '--install --prefix ' .. folder .. '/file', 'Not a directory' },
      { '--install --prefix /proc/nothing', 'No such file' },
      { '--install --name ../x', "'%.%./x' is no name" },
      { '--install --name ..', 'is no name' },
      { '--install --name ""', 'is no name' },
      { '--install --remove', 'two things' },
      { '--install file', 'goes with neither' },
      { '', 'connection file is missing' },
    } do
      local said, status = run(case[1])
      assert.equal(1, status, case[1])
      assert.matches(case[2], said)
      assert.falsy(said:find 'traceback')
    end
  end)
end)
