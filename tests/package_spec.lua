-- SPDX-License-Identifier: MIT
-- `make deb` and the rockspec, with the tools that are here. A whole life of the packages in an
-- empty Debian is `make check-deb`.

local folders = dofile 'tests/lua/store/folder.lua'

local function run(command)
  local text, status = folders.run(command)
  assert.equal(0, status, command .. '\n' .. text)
  return text
end

local function has(...)
  for _, tool in ipairs { ... } do
    if select(2, folders.run('command -v ' .. tool)) ~= 0 then return false end
  end
  return true
end

local function read(path)
  local file = assert(io.open(path, 'rb'))
  local text = file:read '*a'
  file:close()
  return text
end

local function there(path)
  local file = io.open(path, 'rb')
  if file then file:close() end
  return file ~= nil
end

local folder

before_each(function() folder = folders.new() end)
after_each(function() folders.remove(folder) end)

describe('packages', function()
  it('of Debian have what runs without this folder, and say what they need', function()
    if not has('dpkg-buildpackage', 'dh') then return pending 'no dpkg-buildpackage and dh' end
    -- what is built, and web pages as make docs leaves them
    run(("mkdir -p '%s/b/docs/why' && ln -s \"$PWD\"/build/*ridge* '%s/b' && echo page | tee "
      .. "'%s/b/docs/index.html' >'%s/b/docs/why/it.html'"):format(folder, folder, folder, folder))
    run(("DPKG_DEB_COMPRESSOR_TYPE=none scripts/deb '%s/b' '%s/p k'"):format(folder, folder))
    local program = run(("ls -d '%s/p k/'ridge_*.deb"):format(folder)):gsub('\n', '')
    local pages = run(("ls -d '%s/p k/'ridge-doc_*.deb"):format(folder)):gsub('\n', '')
    local control = run(("dpkg-deb -f '%s'"):format(program))
    for _, needed in ipairs { 'libc6 %(>= ', 'libluajit%-5.1%-2 ', 'libdnnl', 'libsqlite3%-0 %(>= ',
        'libcairo2 %(>= ', 'libfontconfig1', 'zlib1g', 'libopenblas0%-openmp', 'libedit2' } do
      assert.matches('\nDepends: [^\n]*' .. needed, control)
    end
    -- a package of a day before the release gives way to the release
    local version = control:match '\nVersion: ([^\n]*)'
    local plain = run './ridge --version':match '^ridge (%S+)'
    assert.equal(plain, version:match '^[%d.]+')
    run(("dpkg --compare-versions '%s' le '%s'"):format(version, plain))

    local at = folder .. '/root'
    run(("dpkg-deb -x '%s' '%s' && dpkg-deb -x '%s' '%s'"):format(program, at, pages, at))
    assert.equal('2\n', run(("cd / && '%s/usr/bin/ridge' -e 1+1"):format(at)))
    local module = run(("find '%s/usr/lib' -path '*/lua/5.1/ridge.so'"):format(at)):gsub('\n', '')
    local where = run([[luajit -e 'print(package.cpath)']])
    assert.truthy(where:find(module:sub(#at + 1):gsub('ridge%.so$', '?.so'), 1, true))
    assert.equal('6\n', run(("cd / && LUA_CPATH='%s' luajit -e '%s'"):format(
      module:gsub('ridge%.so$', '?.so'), [[print(require "ridge".arange(1, 3):sum():item())]])))
    local listed = run(("cd '%s' && find . ! -type d"):format(at))
    for _, path in ipairs { 'man/man1/ridge.1.gz', 'bash-completion/completions/ridge',
        'zsh/vendor-completions/_ridge', 'fish/vendor_completions.d/ridge.fish',
        'ridge/library/ridge.lua', 'jupyter/kernels/ridge/kernel.json',
        'doc/ridge/recipes/digits.lua', 'doc/ridge/docs/README.md', 'doc/ridge/html/why/it.html',
        'doc/ridge/copyright', 'doc/ridge/changelog.gz', 'doc/ridge-doc/copyright' } do
      assert.truthy(listed:find('./usr/share/' .. path .. '\n', 1, true), path)
    end
    assert.falsy(listed:find('/manifest\n', 1, true))
    -- messages between processes are a package of their own, of what was built
    assert.falsy(listed:find('libridge_mpi', 1, true))
    local messages = run(("ls '%s/p k'"):format(folder)):match '(ridge%-mpi_[^\n]*%.deb)\n'
    assert.equal(there 'build/libridge_mpi.so', messages ~= nil)
    assert.equal(messages ~= nil, control:find 'Suggests: [^\n]*ridge%-mpi' ~= nil)
    if messages then
      local path = ("'%s/p k/%s'"):format(folder, messages)
      assert.matches('%./usr/lib/ridge/libridge_mpi%.so\n', run('dpkg-deb -c ' .. path))
      local needs = run(('dpkg-deb -f %s Depends'):format(path))
      assert.matches('libopenmpi3', needs)
      assert.matches('openmpi%-bin', needs)
      assert.truthy(needs:find(('ridge (= %s)'):format(version), 1, true), needs)
      assert.falsy(needs:find('cairo', 1, true)) -- what ridge opens by name is not its
    end
    -- the licence, word by word
    local license = read 'LICENSE':match 'Permission is.*':gsub('%s+', ' ')
    local copyright = read(at .. '/usr/share/doc/ridge/copyright'):match ' Permission is.*'
      :gsub('\n %.\n', '\n'):gsub('^%s+', ''):gsub('%s+', ' ')
    assert.equal(license, copyright)
  end)

  it('of LuaRocks are required by plain LuaJIT, and go again', function()
    if not has('luarocks') then return pending 'no luarocks' end
    local rocks = ("luarocks --lua-version 5.1 --tree '%s/a tree' "):format(folder)
    run(rocks .. 'make scripts/ridge-dev-1.rockspec')
    local print_sum = [[print(require "ridge".arange(1, 3):sum():item())]]
    assert.equal('6\n', run(("eval \"$(%s path)\" && cd / && luajit -e '%s' && ridge -e 3+3")
      :format(rocks, print_sum)):sub(1, 2))
    if there 'build/libridge_mpi.so' then
      for _, name in ipairs { 'bin', 'lib/lua/5.1' } do
        assert.is_true(there(('%s/a tree/%s/libridge_mpi.so'):format(folder, name)))
      end
    end
    run(rocks .. 'remove ridge')
    assert.equal('', run(("find '%s/a tree' -name '*ridge*'"):format(folder)))
  end)
end)
