std = 'luajit'
max_line_length = 100
files['tests/**/*_spec.lua'] = { std = '+busted' }
