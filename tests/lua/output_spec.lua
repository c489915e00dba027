-- SPDX-License-Identifier: MIT
-- Writing files: whatever stands at the target keeps its kind, its mode, its links, and holds all
-- of the new bytes or all of the old ones. Every writer of the project is held to it.
local ridge = require 'ridge'
local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local output = require 'ridge.ffi.output'
local folders = dofile 'tests/lua/store/folder.lua'

ffi.cdef [[
unsigned umask(unsigned);
typedef struct { size_t arena, free_n, fast_n, map_n, map, peak, fast, used, unused, top; } heap;
heap mallinfo2(void);
]]

local function shell(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read '*a'
  pipe:close()
  return (text:gsub('\n$', ''))
end

local function read(path)
  local file = assert(io.open(path, 'rb'))
  local text = file:read '*a'
  file:close()
  return text
end

local function put(path, text)
  local file = assert(io.open(path, 'wb'))
  file:write(text)
  file:close()
end

local function mode(path) return shell(("stat -c %%a '%s'"):format(path)) end

describe('writing a file', function()
  local folder, path

  before_each(function()
    folder = folders.new()
    path = folder .. '/out'
  end)
  after_each(function() folders.remove(folder) end)

  it('makes one with the mode the user has set', function()
    local before = ffi.C.umask(tonumber('027', 8))
    output.write(path, 'test', 'new')
    ffi.C.umask(before)
    assert.equal('new', read(path))
    assert.equal('640', mode(path))
    assert.equal('out', folders.list(folder))
  end)

  it('keeps the mode, the owner and the other names of one that is there', function()
    for _, bits in ipairs { '600', '664', '755', '444' } do
      put(path, 'old')
      os.execute(("chmod %s '%s'"):format(bits, path))
      output.write(path, 'test', 'new')
      assert.equal('new', read(path))
      assert.equal(bits, mode(path))
      os.remove(path)
    end
    put(path, 'much longer than what is new')
    os.execute(("ln '%s' '%s.other'"):format(path, path))
    output.write(path, 'test', 'new')
    assert.equal('new', read(path))
    assert.equal('new', read(path .. '.other'))
    assert.equal('2', shell(("stat -c %%h '%s'"):format(path)))
    if shell 'id -u' == '0' then
      put(path, 'old')
      os.execute(("chown 12:34 '%s'; chmod 640 '%s'"):format(path, path))
      output.write(path, 'test', 'new')
      assert.equal('12 34 640', shell(("stat -c '%%u %%g %%a' '%s'"):format(path)))
    end
  end)

  it('gives back what it copied through where a file keeps its other names', function()
    put(path, 'old')
    os.execute(("ln '%s' '%s.other'"):format(path, path))
    local before
    for i = 1, 30 do
      output.write(path, 'test', 'new')
      if i == 10 then before = tonumber(ffi.C.mallinfo2().used) end
    end
    assert.is_true(tonumber(ffi.C.mallinfo2().used) - before < 10 * 65536)
  end)

  it('follows symbolic links, one behind another, to names that are still free too', function()
    os.execute(("mkdir '%s/deep'"):format(folder))
    put(folder .. '/deep/real', 'old')
    os.execute(("cd '%s' && ln -s middle out && ln -s deep/real middle && chmod 600 deep/real")
      :format(folder))
    output.write(path, 'test', 'new')
    assert.equal('new', read(folder .. '/deep/real'))
    assert.equal('600', mode(folder .. '/deep/real'))
    assert.equal('middle', shell(("readlink '%s'"):format(path)))
    assert.equal('deep/real', shell(("readlink '%s/middle'"):format(folder)))
    os.execute(("cd '%s' && ln -s deep/free hanging"):format(folder))
    output.write(folder .. '/hanging', 'test', 'made')
    assert.equal('made', read(folder .. '/deep/free'))
    assert.equal('real free', (shell(("ls -A '%s/deep'"):format(folder)):gsub('\n', ' ')
      :gsub('^free real$', 'real free')))
    os.execute(("cd '%s' && ln -s round round"):format(folder))
    local ok, err = pcall(output.write, folder .. '/round', 'test', 'x')
    assert.is_false(ok)
    assert.equal('EIO', err.code)
    assert.matches('Too many levels of symbolic links', err.message)
  end)

  it('goes straight into what is no regular file, which stays what it is', function()
    output.write('/dev/null', 'test', 'gone')
    assert.equal('character special file', shell "stat -c %F /dev/null")
    local ok, err = pcall(output.write, '/dev/full', 'test', 'x')
    assert.is_false(ok)
    assert.equal('test: /dev/full cannot be written: No space left on device', err.message)
    assert.equal('character special file', shell "stat -c %F /dev/full")
    os.execute(("mkfifo '%s'; cat '%s' > '%s.got' & "):format(path, path, path))
    output.write(path, 'test', ('through '):rep(20000))
    assert.equal('fifo', shell(("stat -c %%F '%s'"):format(path)))
    os.execute(("mkfifo '%s.end'; (echo > '%s.end') & read x < '%s.end'"):format(path, path, path))
    local got
    repeat got = read(path .. '.got') until #got == 8 * 20000
    assert.equal(('through '):rep(20000), got)
    ok, err = pcall(output.write, folder, 'test', 'x')
    assert.is_false(ok)
    assert.matches('Is a directory', err.message)
  end)

  it('goes on where an open descriptor stands', function()
    put(folder .. '/a.lua', [[
      print 'before'
      require('ridge.ffi.output').write('/dev/stdout', 'test', 'between\n')
      require('ridge.ffi.output').write('/proc/self/fd/1', 'test', 'and\n')
      print 'behind']])
    os.execute(("(echo first; ./ridge '%s/a.lua'; echo last) > '%s'"):format(folder, path))
    assert.equal('first\nbefore\nbetween\nand\nbehind\nlast\n', read(path))
    assert.equal('first\nbefore\nbetween\nand\nbehind\nlast', shell(
      ("(echo first; ./ridge '%s/a.lua'; echo last) | cat"):format(folder)))
    -- by its bare name, where that folder is the current one
    put(folder .. '/b.lua', "require('ridge.ffi.output').write('1', 'test', 'here\\n')")
    assert.equal('here', shell(("ridge=$PWD/ridge; (cd /proc/self/fd && exec $ridge '%s/b.lua') "
      .. '2>&1 | cat'):format(folder)))
  end)

  it('leaves what was there, and nothing beside it, when it fails', function()
    put(path, 'old')
    local ok, err = pcall(output.write, path, 'test', function(out)
      out:write 'half'
      error 'enough'
    end)
    assert.is_false(ok)
    assert.matches('enough', tostring(err))
    assert.equal('old', read(path))
    assert.equal('out', folders.list(folder))
    ok, err = pcall(output.write, folder .. '/none/x', 'test', 'x')
    assert.is_false(ok)
    assert.equal('EIO', err.code)
    assert.equal(('test: %s/none/x cannot be written: No such file or directory'):format(folder),
      err.message)
    for _, bad in ipairs { '', 'a\0b', 3, false } do
      ok, err = pcall(output.write, bad, 'test', 'x')
      assert.is_false(ok)
      assert.is_true(blame.is_error(err))
    end
    local text, status = folders.run(("trap '' XFSZ; ulimit -f 20; ./ridge -e "
      .. "'require(\"ridge.ffi.output\").write(\"%s\", \"test\", (\"x\"):rep(1e6))'"):format(path))
    assert.equal(1, status)
    assert.matches('File too large', text)
    assert.equal('old', read(path))
    assert.equal('out', folders.list(folder))
  end)

  it('writes over a file of several names to the end, whatever Ctrl-C says meanwhile', function()
    put(path, ('old'):rep(1e5))
    os.execute(("ln '%s' '%s.too'"):format(path, path))
    local new = ('newer'):rep(1e5)
    local ok, err = pcall(output.write, path, 'test', function(out)
      out:write(new)
      C.rg_interrupt_set()
    end)
    assert.are.equal(1, C.rg_interrupt_pending())
    C.rg_interrupt_clear()
    assert.is_true(ok, tostring(err))
    assert.is_true(read(path) == new and read(path .. '.too') == new)
    assert.equal('out out.too', folders.list(folder))
  end)

  it('leaves a file of several names as it was where the disk has no room for more', function()
    -- 40 kB stand there, 168 kB fit beside them, and not over them as well
    local text, status = folders.run(([==[unshare -rm sh -c "mount -t tmpfs -o size=256k x '%s' &&
      cd '%s' && head -c 40000 /dev/zero > w && ln w too && (
      \$OLDPWD/ridge -e 'ridge.save([[w]], { w = ridge.ones(42000) })';
      stat -c 'size %%s' w; cmp -n 40000 w /dev/zero && ls -A | xargs echo)" 2>&1]==]):format(
      folder, folder))
    if text:find 'unshare' or text:find 'mount' then return pending(text) end
    assert.are.equal(0, status)
    assert.matches('w cannot be written: No space left on device', text)
    assert.matches('size 40000\ntoo w', text)
  end)

  it('leaves nothing behind when the process is killed', function()
    put(path, 'old')
    local _, status = folders.run(([==[sh -c "./ridge -e '
      require([[ffi]]).cdef [[int raise(int);]]
      require([[ridge.ffi.output]]).write([[%s]], [[test]], function(out)
        out:write(([[x]]):rep(1e6))
        require([[ffi]]).C.raise(9)
      end)'"]==]):format(path))
    assert.equal(137, status)
    assert.equal('old', read(path))
    assert.equal('out', folders.list(folder))
  end)
end)

describe('every writer', function()
  local folder, db

  setup(function()
    folder = folders.new()
    db = folder .. '/s.db'
    put(folder .. '/tiny.lua', [[
      require('ridge').sweep 'tiny' { space = { a = { 1, 2, 3 }, b = { 1, 2 } },
        measure = function(p, _, m) m:metric('square', p.a * p.b, { better = 'lower' }) end,
      }:run { calibrate = false, progress = 'off' }]])
    local _, status = folders.run(('RIDGE_DB=%s ./ridge %s/tiny.lua'):format(db, folder))
    assert.equal(0, status)
  end)
  teardown(function() folders.remove(folder) end)

  -- a shell command that writes its file %s, and what the file begins with
  local WRITERS = {
    { 'safetensors', "-e 'ridge.save(\"%s\", { a = ridge.ones(2) })'", '^........{"a"' },
    { 'npy', "-e 'ridge.save([[%s]], ridge.ones(2))'", '^\147NUMPY' },
    { 'png', 'plot map tiny -x a -y b -z square -o %s', '^\137PNG' },
    { 'csv', 'export tiny -o %s', '^trial,' },
    { 'json', 'export tiny --as json -o %s', '^{"format":"ridge%-rows"' },
    { 'jsonl', 'export tiny --as jsonl -o %s', '^{' },
    { 'md', 'export tiny --as md -o %s', '^| trial' },
    { 'samples', 'export tiny --samples -o %s', '^trial,phase' },
  }

  local ENDING = { png = 'png', npy = 'npy' } -- what a path has to end in

  for _, writer in ipairs(WRITERS) do
    it(('follows links and keeps modes: %s'):format(writer[1]), function()
      local real = folder .. '/real'
      local link = ('%s/link.%s'):format(folder, ENDING[writer[1]] or 'x')
      put(real, 'old')
      os.execute(("chmod 600 '%s'; ln -sf real '%s'"):format(real, link))
      local text, status = folders.run(('RIDGE_DB=%s ./ridge %s'):format(db,
        writer[2]:format(link)))
      assert.equal(0, status, text)
      assert.matches(writer[3], read(real))
      assert.equal('600', mode(real))
      assert.equal('real', shell(("readlink '%s'"):format(link)))
      os.execute(("ln -sf /dev/full '%s'"):format(link))
      text, status = folders.run(('RIDGE_DB=%s ./ridge %s'):format(db, writer[2]:format(link)))
      assert.equal(1, status)
      assert.matches('No space left on device', text)
      assert.equal('/dev/full', shell(("readlink '%s'"):format(link)))
      os.remove(link)
    end)
  end

  it('follows links and keeps modes: replot over itself', function()
    local real, link = folder .. '/map.png', folder .. '/again.png'
    folders.run(('RIDGE_DB=%s ./ridge plot map tiny -x a -y b -z square -o %s'):format(db,
      real))
    local before = read(real)
    os.execute(("chmod 640 '%s'; ln -sf map.png '%s'"):format(real, link))
    local text, status = folders.run(('./ridge replot %s --theme dark'):format(link))
    assert.equal(0, status, text)
    assert.not_equal(before, read(real))
    assert.matches('^\137PNG', read(real))
    assert.equal('640', mode(real))
    assert.equal('map.png', shell(("readlink '%s'"):format(link)))
  end)

  it('no other place of the project opens a file for writing', function()
    -- a program that writes its own temporary file, a log that is appended to, the name of a copy
    -- that SQLite has written
    local allowed = { ['lua/ridge/repl/command/typed.lua'] = 1, ['lua/ridge/repl/history.lua'] = 2,
      ['lua/ridge/store/sqlite.lua'] = 1, ['lua/ridge/store/publish.lua'] = 1,
      ['lua/ridge/cli/by_ranks.lua'] = 1, ['lua/ridge/cli/scale.lua'] = 1, -- of ranks
      ['lua/ridge/scaling/ranks.lua'] = 1, ['lua/ridge/quant/journal.lua'] = 1,
      ['recipes/quant.lua'] = 1 }
    local found = {}
    for line in shell([[grep -rnE "io\.open\([^)]*, *'[wa]b?'|os\.rename" lua recipes]])
        :gmatch '[^\n]+' do
      local file = line:match '^[^:]+'
      found[file] = (found[file] or 0) + 1
    end
    assert.same(allowed, found)
  end)
end)

describe('a checkpoint', function()
  it('is written through a link', function()
    local folder = folders.new()
    os.execute(("mkdir '%s/deep'; ln -s deep/real '%s/a'"):format(folder, folder))
    ridge.save(folder .. '/a', { w = ridge.ones(3) })
    assert.equal(3, ridge.load(folder .. '/deep/real').w:sum():item())
    assert.equal('real', folders.list(folder .. '/deep'))
    folders.remove(folder)
  end)
end)
