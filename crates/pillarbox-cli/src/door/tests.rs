use std::net::IpAddr;
use std::sync::Arc;

use super::limits::Limits;
use super::places::{Place, Places};

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn address(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, number])
}

fn places(most: usize, per_address: usize) -> Arc<Places> {
    Arc::new(Places::new(Limits { most, per_address, is_shared: Box::new(|address| address.is_loopback()) }))
}

/// Returns whether the connection was told to close.
async fn is_evicted(place: &Place) -> bool {
    tokio::select! {
        biased;
        _ = place.pulse().end() => true,
        () = std::future::ready(()) => false,
    }
}

#[tokio::test]
async fn silent_connections_keep_nobody_out() {
    let places = places(4, 4);
    let busy = places.take(HERE).unwrap();
    let _in_flight = busy.pulse().begin();
    let idle = places.take(HERE).unwrap();
    drop(idle.pulse().begin());
    let silent = [places.take(HERE).unwrap(), places.take(HERE).unwrap()];
    // Silent connections go before the idle one, oldest first; the busy one stays.
    let first = places.take(HERE).unwrap();
    assert_eq!((is_evicted(&silent[0]).await, is_evicted(&silent[1]).await), (true, false));
    let _first = first.pulse().begin();
    let second = places.take(HERE).unwrap();
    let _second = second.pulse().begin();
    assert!(is_evicted(&silent[1]).await && !is_evicted(&idle).await);
    let third = places.take(HERE).unwrap();
    let third_in_flight = third.pulse().begin();
    assert!(is_evicted(&idle).await && !is_evicted(&busy).await);
    assert!(places.take(HERE).is_none(), "all are busy");
    drop(third_in_flight);
    assert!(places.take(HERE).is_some() && is_evicted(&third).await);
}

#[tokio::test]
async fn an_address_has_its_share_and_its_own_make_way() {
    let places = places(8, 2);
    let other = places.take(address(9)).unwrap();
    let own = [places.take(address(1)).unwrap(), places.take(address(1)).unwrap()];
    let third = places.take(address(1)).unwrap();
    assert!(is_evicted(&own[0]).await && !is_evicted(&own[1]).await && !is_evicted(&other).await);
    let _in_flight = [own[1].pulse().begin(), third.pulse().begin()];
    assert!(places.take(address(1)).is_none());
    assert!(places.take(address(2)).is_some());
    // This machine, where proxies run, may take all the remaining places.
    let here: Vec<_> = (0..5).map(|_| places.take(HERE).unwrap()).collect();
    let _busy: Vec<_> = here.iter().map(|place| place.pulse().begin()).collect();
    drop(own);
    assert!(places.take(HERE).is_some());
}

#[tokio::test]
async fn a_connection_that_ends_leaves_its_place() {
    let places = places(1, 1);
    let place = places.take(HERE).unwrap();
    let _busy = place.pulse().begin();
    assert!(places.take(HERE).is_none());
    drop(place);
    assert!(places.take(HERE).is_some());
}
