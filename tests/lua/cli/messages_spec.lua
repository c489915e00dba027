-- SPDX-License-Identifier: MIT
-- What `ridge doctor` says of MPI: by a program in a folder of its own, beside which the library
-- is, is not, or is something else.

local folders = dofile 'tests/lua/store/folder.lua'

describe('ridge doctor on MPI', function()
  local folder = folders.new()
  local library = folder .. '/libridge_mpi.so'
  teardown(function() folders.remove(folder) end)

  local function run(command)
    local text, status = folders.run(command)
    assert.equal(0, status, text)
    return text
  end

  -- Its lines, of the program in the folder.
  local function said(setting)
    local code = "print(table.concat(require('ridge.cli.messages').lines(), '|'))"
    return run(("%s '%s/ridge' -e \"%s\""):format(setting or 'RIDGE_MPI=', folder, code))
      :gsub('\n$', '')
  end

  local function compile(name, text, flags)
    run(("cd '%s' && echo '%s' >x.c && cc -shared -fPIC -o %s x.c %s"):format(folder, text, name,
      flags or ''))
  end

  setup(function() run(("cp -L build/ridge '%s/ridge'"):format(folder)) end)

  it('says what to install where there is none', function()
    assert.equal(('none: there is no %s|ridge launch needs it: install the package ridge-mpi, or '
      .. 'Open MPI (scripts/deps mpi)|and make ridge again'):format(library), said())
    assert.equal(("none: there is no %s/other.so|RIDGE_MPI names it"):format(folder),
      said(("RIDGE_MPI='%s/other.so'"):format(folder)))
    assert.matches('|RIDGE_MPI names it$', said 'RIDGE_MPI=libridge_nowhere.so')
  end)

  it('says why one does not load, or is none', function()
    compile('liblacking.so', 'int lacking(void) { return 1; }')
    compile('libridge_mpi.so', 'int lacking(void); '
      .. 'int rg_mpi_transport(void) { return lacking(); }', '-L. -llacking')
    os.remove(folder .. '/liblacking.so')
    assert.equal((library .. ' does not load|liblacking.so: cannot open shared object file: '
      .. "No such file or directory|ridge launch needs it: install Debian's openmpi-bin"), said())
    run(("echo text >'%s'"):format(library))
    assert.equal(('%s does not load|%s: file too short|ridge launch needs it: make libridge_mpi.so '
      .. 'again'):format(library, library), said())
    compile('libridge_mpi.so', 'int other;')
    assert.equal(library .. ' has no function rg_mpi_transport|ridge launch needs it: make '
      .. 'libridge_mpi.so again', said())
  end)

  it('says whose it is, and where the launcher is', function()
    compile('libridge_mpi.so', 'int rg_mpi_transport(void) { return 1; } '
      .. 'int MPI_Get_library_version(char *t, int *n) { '
      .. 'const char *s = "Some MPI v9.8, of somebody";'
      .. ' for (*n = 0; s[*n]; ++*n) t[*n] = s[*n]; return 0; }')
    run(("mkdir '%s/bin' && touch '%s/bin/mpirun'"):format(folder, folder))
    assert.equal(('Some MPI v9.8, by %s|mpirun is %s/bin/mpirun'):format(library, folder),
      said(("RIDGE_MPI= PATH='%s/bin'"):format(folder)))
    assert.equal(("Some MPI v9.8, by %s|there is no mpirun on the PATH, so no ridge launch: "
      .. "install Debian's openmpi-bin"):format(library), said 'RIDGE_MPI= PATH=/nowhere')
    compile('libridge_mpi.so', 'int rg_mpi_transport(void) { return 1; }')
    assert.matches('^an MPI that does not say its version, by ', said())
  end)
end)
