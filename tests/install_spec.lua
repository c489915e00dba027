-- SPDX-License-Identifier: MIT
-- `make install` and `make uninstall`, below a folder: what is there, what runs, what is left.

local folders = dofile 'tests/lua/store/folder.lua'

local function run(command)
  local text, status = folders.run(command)
  assert.equal(0, status, command .. '\n' .. text)
  return text
end

local function all(folder)
  return run(("cd '%s' && find . -printf '%%y %%p\n' | sort"):format(folder))
end

describe('what is installed', function()
  local folder = folders.new()
  os.execute('mkdir -p ' .. folder .. '/usr/share/man ' .. folder .. '/usr/lib/lua')
  local before = all(folder)
  local install = ("PREFIX='%s/usr' scripts/install "):format(folder)
  teardown(function() folders.remove(folder) end)

  it('runs, is found by plain LuaJIT and by C, and has a page and completion', function()
    assert.matches('LUA_CPATH=', run(install .. 'build'))
    local at = folder .. '/usr/'
    assert.equal('2\n', run(("cd / && '%sbin/ridge' -e 1+1"):format(at)))
    assert.matches('^0%.', run(("cd / && LUA_CPATH='%slib/lua/5.1/?.so;;' luajit -e "
      .. [["print(require 'ridge'.version())"]]):format(at)))
    local c = os.tmpname()
    run(([[printf '#include "ridge.h"\nint puts(const char *);\nint main(void) {%%s}\n' ]]
      .. "'puts(rg_version());' >'%s.c' && cc -I '%sinclude' -o '%s' '%s.c' '%slib/libridge.so' "
      .. '-Wl,--allow-shlib-undefined'):format(c, at, c, c, at))
    assert.matches('^0%.', run(("LD_LIBRARY_PATH='%slib' '%s'"):format(at, c)))
    os.execute(("rm '%s' '%s.c'"):format(c, c))
    assert.matches('%.SH COMMANDS.*%.SS "sweep"', run('cat ' .. at .. 'share/man/man1/ridge.1'))
    for name, word in pairs { ['bash-completion/completions/ridge'] = 'complete %-o',
        ['zsh/site-functions/_ridge'] = '#compdef ridge',
        ['fish/vendor_completions.d/ridge.fish'] = 'complete %-c ridge' } do
      assert.matches(word, run('cat ' .. at .. 'share/' .. name))
    end
  end)

  it('is the same after another time, without what an older one had', function()
    local there = all(folder)
    local old = folder .. '/usr/share/doc/ridge/gone/old.md'
    local its = old:match '^(.*)/'
    run(("mkdir '%s' && touch '%s' && printf 'd %s\\nf %s\\n' >>'%s/usr/lib/ridge/manifest'")
      :format(its, old, its, old, folder))
    run(install .. 'build')
    assert.equal(there, all(folder))
  end)

  it('goes as a whole, and what was there before stays', function()
    run(("touch '%s/usr/share/doc/ridge/mine'"):format(folder))
    run(install .. '--remove')
    run(("cd '%s/usr/share/doc' && rm ridge/mine && rmdir ridge && cd .. && rmdir doc")
      :format(folder))
    assert.equal(before, all(folder))
    local text, status = folders.run(install .. '--remove')
    assert.equal(1, status)
    assert.matches('nothing is installed below', text)
  end)

  it('needs a whole path', function()
    local text, status = folders.run 'PREFIX=here scripts/install build'
    assert.equal(2, status)
    assert.matches("PREFIX is a whole path, got 'here'", text)
  end)
end)
