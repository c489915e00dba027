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
    assert.matches('@meta', run('cat ' .. at .. 'share/ridge/library/ridge.lua'))
    local kernel = run('cat ' .. at .. 'share/jupyter/kernels/ridge/kernel.json')
    assert.truthy(kernel:find('["' .. at .. 'bin/ridge","kernel",', 1, true))
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

  it('takes nothing away that is not below PREFIX, whatever the manifest names', function()
    local other = folder .. '/other'
    run(("mkdir '%s' '%s.empty' && touch '%s/file'"):format(other, other, other))
    local lines = ("printf 'f %s/file\\nf %s/usr/../other/file\\nf %s/us*/x\\nd %s.empty\\n"
      .. "f %s/usr\\n' >>'%s/usr/lib/ridge/manifest'"):format(other, folder, folder, other, folder,
      folder)
    run(install .. 'build')
    run(lines)
    assert.matches('left alone, it is not below [^\n]*/usr: [^\n]*/other/file\n',
      run(install .. 'build'))
    run(lines)
    assert.matches('ridge is gone', run(install .. '--remove'))
    run(("test -f '%s/file' && test -d '%s.empty' && rm -r '%s' '%s.empty'"):format(other, other,
      other, other))
    assert.equal(before, all(folder))
  end)

  it('puts nothing into a folder, or through a link, that stands in its place', function()
    local at = folder .. '/usr/'
    run(("mkdir -p '%sbin' '%slib/ridge' && touch '%s/mine' && ln -s '%s/mine' '%sbin/ridge' && "
      .. "ln -s '%s/mine' '%slib/ridge/ridge.new' && ln -s '%s/mine' '%slib/ridge/manifest.old'")
      :format(at, at, folder, folder, at, folder, at, folder, at))
    run(("mkdir -p '%sshare/man/man1/ridge.1'"):format(at))
    local text, status = folders.run(install .. 'build')
    assert.equal(1, status)
    assert.matches('ridge%.1 is a folder\n.*it is not whole', text)
    assert.equal('', run(("cat '%s/mine'; ls '%sshare/man/man1/ridge.1'"):format(folder, at)))
    run(("rmdir '%sshare/man/man1/ridge.1' '%sshare/man/man1'"):format(at, at))
    run(install .. '--remove') -- what was placed before the error goes, too
    run(("rm '%slib/ridge/manifest.old' '%s/mine' && rmdir '%slib/ridge' '%sbin'"):format(at,
      folder, at, at))
    assert.equal(before, all(folder))
  end)

  it('lies below any name, and below DESTDIR alone', function()
    local odd = folder .. '/a [b|c&* d'
    assert.matches('^ridge is in', run(("PREFIX='%s' scripts/install build"):format(odd)))
    assert.equal('2\n', run(("'%s/bin/ridge' -e 1+1"):format(odd)))
    run(("PREFIX='%s' scripts/install --remove"):format(odd))
    local root = folder .. '/root'
    run(("DESTDIR='%s' PREFIX=/ scripts/install build"):format(root))
    run(("'%s/bin/ridge' -e 1+1"):format(root))
    run(("DESTDIR='%s' PREFIX=/ scripts/install --remove; rmdir '%s' 2>/dev/null || :"):format(root,
      root))
    -- below /usr/lib, where LuaJIT looks there, too; /usr/local is another prefix
    run(("DESTDIR='%s' PREFIX=/usr scripts/install build"):format(root))
    run(("test ! -e '%s/usr/local' && find '%s/usr/lib' -path '*/lua/5.1/ridge.so' | grep -q .")
      :format(root, root))
    run(("DESTDIR='%s' PREFIX=/usr scripts/install --remove; rm -rf '%s'"):format(root, root))
    assert.equal(before, all(folder))
  end)

  it('is told PREFIX by make as it was given, and says it as a shell reads it', function()
    local odd = folder .. "/it's"
    local quoted = "'" .. odd:gsub("'", "'\\''") .. "'"
    -- what is built is taken as it is: another test may be running it
    local text = run('make -s -o all install PREFIX=' .. quoted)
    assert.matches(('make uninstall PREFIX=%s takes it away'):format(quoted), text, 1, true)
    assert.equal('2\n', run(('"%s/bin/ridge" -e 1+1'):format(odd)))
    run('make -s uninstall PREFIX=' .. quoted)
    assert.equal(before, all(folder))
  end)

  it('has no empty page where the program cannot write one', function()
    local build = folder .. '/build'
    local fails = "printf '#!/bin/sh\n[ $1 != help ] || exit 3\necho words\n'"
    run(("mkdir '%s' && %s >'%s/ridge' && chmod +x '%s/ridge'"):format(build, fails, build, build))
    local text, status = folders.run(install .. build)
    assert.equal(1, status)
    assert.matches("ridge.1: '[^\n]*/ridge help %-%-man' failed\n.*it is not whole", text)
    assert.equal('', run(("find '%s/usr' -name 'ridge.1*'"):format(folder)))
    -- and where it says nothing
    run(("printf '#!/bin/sh\n[ $1 = help ] || echo words\n' >'%s/ridge'"):format(build))
    assert.equal(1, select(2, folders.run(install .. build)))
    run(install .. '--remove')
    run(("rm -r '%s'"):format(build))
    assert.equal(before, all(folder))
  end)

  it('needs a whole path', function()
    for _, path in ipairs { '/tmp/../x', '/tmp/./x', '/tmp/x\ny' } do
      assert.equal(2, select(2, folders.run(("PREFIX='%s' scripts/install build"):format(path))))
    end
    local text, status = folders.run 'PREFIX=here scripts/install build'
    assert.equal(2, status)
    assert.matches("PREFIX is a whole path, got 'here'", text)
  end)
end)
