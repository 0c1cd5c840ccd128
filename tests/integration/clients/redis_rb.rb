# redis-rb asks a daemon with the limit api=10/s and a clock that stands still. It prints one line
# for each question; serve_languages.py knows them all, and puts its own port in the place of 7311.

# guide
require 'redis'

weir = Redis.new(host: '127.0.0.1', port: 7311)
allowed, limit, remaining, retry_ms = weir.call('WEIR.TAKE', 'api', 'alice')
puts "wait #{retry_ms} ms" if allowed == 0
# end of guide

def tell(what, *values)
  puts "#{what}: #{values.flatten.map { |value| value.nil? ? 'null' : value }.join(' ')}"
end

def tell_error(what)
  tell what, yield
rescue Redis::CommandError => error
  tell what, error.class, error.message
end

tell 'named', allowed, limit, remaining, retry_ms
tell 'ping', weir.ping
tell 'literal', weir.call('WEIR.TAKE', 'token-bucket 10/s burst=20', 'alice')
tell 'emptied', weir.call('WEIR.TAKE', 'token-bucket 1/m', 'alice')
tell 'refused', weir.call('WEIR.TAKE', 'token-bucket 1/m', 'alice')
tell 'throttle', weir.call('CL.THROTTLE', 'alice', 15, 30, 60)
tell 'verbose', weir.call('WEIR.TAKE', 'api', 'alice', 'VERBOSE')
tell_error('error') { weir.call('WEIR.TAKE', 'nosuch', 'alice') }

tell 'pipeline', weir.pipelined { |p| 3.times { p.call('WEIR.TAKE', 'api', 'pipeline') } }
tell 'transaction', weir.multi { |t| 3.times { t.call('WEIR.TAKE', 'api', 'transaction') } }
tell_error('error in it') do
  weir.multi do |t|
    t.call('WEIR.TAKE', 'api', 'transaction')
    t.call('WEIR.TAKE', 'nosuch', 'transaction')
    t.call('WEIR.TAKE', 'api', 'transaction')
  end
end
tell 'charged', weir.call('WEIR.PEEK', 'api', 'transaction')
tell_error('unknown in it') do
  weir.multi do |t|
    t.call('WEIR.TAKE', 'api', 'transaction')
    t.call('NOSUCH')
  end
end
tell 'not charged', weir.call('WEIR.PEEK', 'api', 'transaction')

tell 'select', weir.select(1), weir.call('WEIR.PEEK', 'api', 'pipeline')
other = Redis.new(url: 'redis://127.0.0.1:7311/1', id: 'ruby')
tell 'name', other.call('CLIENT', 'GETNAME')
tell 'database', other.call('WEIR.PEEK', 'api', 'pipeline')

cluster = Redis.new(cluster: ['redis://127.0.0.1:7311'])
tell 'cluster', cluster.call('WEIR.TAKE', 'api', 'cluster')
tell 'cluster pipeline',
     cluster.pipelined { |p| 2.times { p.call('WEIR.TAKE', 'api', 'cluster') } }
